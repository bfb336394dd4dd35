// Noise level at each training step of a diffusion model, and the steps to run. Pure.
// Source: diffusers' schedulers (betas, timestep_spacing), https://huggingface.co/docs/diffusers/api/schedulers/overview
import { LoadFailure } from "../../../llama/load-failure.ts";
import type { Json } from "../../../onnx/model-folder.ts";

export interface NoiseLevels {
  readonly count: number;
  /** Share of the picture in the mixture, by the step of training. */
  readonly kept: Float64Array;
  /** Before the first step: the whole picture, or what the first step of training keeps. */
  readonly keptAtEnd: number;
  readonly spacing: "leading" | "linspace" | "trailing";
  readonly offset: number;
  readonly prediction: "epsilon" | "v_prediction" | "sample";
}

const spacings = ["leading", "linspace", "trailing"] as const;
const predictions = ["epsilon", "v_prediction", "sample"] as const;

export interface LevelDefaults {
  readonly spacing: NoiseLevels["spacing"];
  readonly endsWhole: boolean;
}

/** Throws LoadFailure for what would make other pictures than the model was trained to make. */
export function readNoiseLevels(config: Json, defaults: LevelDefaults): NoiseLevels {
  const count = numberOf(config["num_train_timesteps"], 1000);
  for (const name of [
    "thresholding",
    "use_karras_sigmas",
    "use_exponential_sigmas",
    "use_beta_sigmas",
    "use_flow_sigmas",
  ])
    if (config[name] === true) throw unknown(name, true);
  const betas = trainedBetas(config) ?? betasOf(config, count);
  const kept = cumulated(betas);
  if (config["rescale_betas_zero_snr"] === true) throw unknown("rescale_betas_zero_snr", true);
  return {
    count,
    kept,
    keptAtEnd: (config["set_alpha_to_one"] ?? defaults.endsWhole) ? 1 : (kept[0] as number),
    spacing: oneOf(config, "timestep_spacing", spacings, defaults.spacing),
    offset: numberOf(config["steps_offset"], 0),
    prediction: oneOf(config, "prediction_type", predictions, "epsilon"),
  };
}

/** From much noise to little. */
export function spacedSteps({ count, spacing, offset }: NoiseLevels, steps: number): number[] {
  const at = Array.from({ length: steps }, (_, i) => i);
  if (spacing === "leading") return at.map((i) => i * Math.floor(count / steps) + offset).reverse();
  if (spacing === "trailing") return at.map((i) => Math.round(count - (i * count) / steps) - 1);
  return at.map((i) => (steps === 1 ? 0 : (i * (count - 1)) / (steps - 1))).reverse();
}

/** Noise beside a picture of strength one, as Euler's and DPM-Solver's equations count it; between steps by a line. */
export function sigmaAt({ kept, count }: NoiseLevels, step: number): number {
  const low = Math.max(0, Math.min(count - 1, Math.floor(step)));
  const high = Math.min(count - 1, low + 1);
  const of = (index: number) => Math.sqrt((1 - (kept[index] as number)) / (kept[index] as number));
  return of(low) + (of(high) - of(low)) * (step - low);
}

function betasOf(config: Json, count: number): number[] {
  const start = numberOf(config["beta_start"], 0.0001);
  const end = numberOf(config["beta_end"], 0.02);
  const between = (a: number, b: number, i: number) => (count === 1 ? a : a + ((b - a) * i) / (count - 1));
  const kind = config["beta_schedule"] ?? "linear";
  const at = Array.from({ length: count }, (_, i) => i);
  if (kind === "linear") return at.map((i) => between(start, end, i));
  if (kind === "scaled_linear") return at.map((i) => between(Math.sqrt(start), Math.sqrt(end), i) ** 2);
  if (kind === "squaredcos_cap_v2") {
    const level = (share: number) => Math.cos(((share + 0.008) / 1.008) * (Math.PI / 2)) ** 2;
    return at.map((i) => Math.min(1 - level((i + 1) / count) / level(i / count), 0.999));
  }
  throw unknown("beta_schedule", kind);
}

function trainedBetas(config: Json): number[] | undefined {
  const betas = config["trained_betas"];
  return Array.isArray(betas) ? betas.map(Number) : undefined;
}

function cumulated(betas: readonly number[]): Float64Array {
  const kept = new Float64Array(betas.length);
  let product = 1;
  for (const [i, beta] of betas.entries()) {
    product *= 1 - beta;
    kept[i] = product;
  }
  return kept;
}

function oneOf<T extends string>(config: Json, name: string, known: readonly T[], fallback: T): T {
  const value = config[name] ?? fallback;
  const found = known.find((one) => one === value);
  if (found === undefined) throw unknown(name, value);
  return found;
}

function unknown(name: string, value: unknown): LoadFailure {
  return new LoadFailure(
    "unsupported scheduler",
    `scheduler_config.json has ${name} ${JSON.stringify(value)}, which this model server does not know; save the pipeline with DDIM, Euler, PNDM or DPM-Solver++ and without it`,
  );
}

const numberOf = (value: unknown, fallback: number) => (typeof value === "number" ? value : fallback);
