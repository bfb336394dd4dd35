// DPM-Solver++ of the second order, multi-step, midpoint. Source: https://arxiv.org/abs/2211.01095, algorithm 2, as diffusers'
// DPMSolverMultistepScheduler runs it.
import { type NoiseLevels, sigmaAt } from "./noise-levels.ts";
import { type Latents, mixed, pictureOf, type Schedule, type Stepper } from "./schedule.ts";

export interface SolverSettings {
  readonly order: 1 | 2;
  /** Noise that is left after the last step: none, or that of the first step of training. */
  readonly endsClean: boolean;
  /** The last of few steps is of the first order. */
  readonly endsSimply: boolean;
}

const fewSteps = 15;

export function dpmSolver(levels: NoiseLevels, steps: number, settings: SolverSettings): Schedule {
  const timesteps = solverSteps(levels, steps);
  const sigmas = [...timesteps.map((step) => sigmaAt(levels, step)), settings.endsClean ? 0 : sigmaAt(levels, 0)];
  const at = (i: number) => {
    const sigma = sigmas[i] as number;
    const picture = 1 / Math.sqrt(sigma ** 2 + 1);
    return { picture, noise: sigma * picture, ratio: -Math.log(sigma) };
  };
  return {
    timesteps,
    initialScale: 1,
    scaled: (sample) => sample,
    noised: (clean, noise, i) => (i >= steps ? clean : mixed(at(i).picture, clean, at(i).noise, noise)),
    stepper: () => stepper(levels.prediction, timesteps.length, settings, at),
  };
}

type At = (i: number) => { readonly picture: number; readonly noise: number; readonly ratio: number };

function stepper(prediction: NoiseLevels["prediction"], steps: number, settings: SolverSettings, at: At): Stepper {
  let last: Latents | undefined;
  return {
    step(output, i, sample) {
      const here = at(i);
      const next = at(i + 1);
      const picture = pictureOf(prediction, output, sample, here);
      const before = last;
      last = picture;
      const span = next.ratio - here.ratio;
      const gain = -next.picture * Math.expm1(-span);
      const first = mixed(next.noise / here.noise, sample, gain, picture);
      const isSimple = i === steps - 1 && (settings.endsClean || (settings.endsSimply && steps < fewSteps));
      if (settings.order === 1 || !before || isSimple) return first;
      const share = span / (here.ratio - at(i - 1).ratio);
      return mixed(1, first, 0.5 * gain * share, mixed(1, picture, -1, before));
    },
  };
}

/** One step more than is run is spread out, and the cleanest is left off. */
function solverSteps({ count, spacing, offset }: NoiseLevels, steps: number): number[] {
  const at = Array.from({ length: steps + 1 }, (_, i) => i);
  if (spacing === "trailing") return at.slice(0, -1).map((i) => Math.round(count - (i * count) / steps) - 1);
  const found =
    spacing === "leading"
      ? at.map((i) => i * Math.floor(count / (steps + 1)) + offset)
      : at.map((i) => Math.round((i * (count - 1)) / steps));
  return found.reverse().slice(0, -1);
}
