// DDIM without added noise. Source: https://arxiv.org/abs/2010.02502, equation 12, as diffusers' DDIMScheduler runs it.
import { type NoiseLevels, spacedSteps } from "./noise-levels.ts";
import { type Latents, mixed, pictureOf, type Schedule } from "./schedule.ts";

/** `clip`: bound of the guessed picture; undefined: none. */
export function ddim(levels: NoiseLevels, steps: number, clip: number | undefined): Schedule {
  const { kept, keptAtEnd, count, prediction } = levels;
  const timesteps = spacedSteps(levels, steps).map(Math.round);
  const keptAt = (step: number) => (step >= 0 ? (kept[Math.min(step, count - 1)] as number) : keptAtEnd);
  return {
    timesteps,
    initialScale: 1,
    scaled: (sample) => sample,
    noised: (clean, noise, i) => noisedAt(levels, clean, noise, timesteps[i]),
    stepper: () => ({
      step(output, i, sample) {
        const now = timesteps[i] as number;
        const here = { picture: Math.sqrt(keptAt(now)), noise: Math.sqrt(1 - keptAt(now)) };
        const next = keptAt(now - Math.floor(count / steps));
        const picture = pictureOf(prediction, output, sample, here);
        const bounded = clip === undefined ? picture : picture.map((v) => Math.max(-clip, Math.min(clip, v)));
        return mixed(Math.sqrt(next), bounded, Math.sqrt(1 - next), noiseOf(prediction, output, sample, here));
      },
    }),
  };
}

export function noisedAt(
  { kept, count }: NoiseLevels,
  clean: Latents,
  noise: Latents,
  step: number | undefined,
): Latents {
  if (step === undefined) return clean;
  const share = kept[Math.min(step, count - 1)] as number;
  return mixed(Math.sqrt(share), clean, Math.sqrt(1 - share), noise);
}

/** The noise beside the picture in the sample, by the model's output for it. */
function noiseOf(prediction: NoiseLevels["prediction"], output: Latents, sample: Latents, parts: Parts): Latents {
  const { picture, noise } = parts;
  if (prediction === "epsilon") return output;
  return prediction === "v_prediction"
    ? mixed(picture, output, noise, sample)
    : mixed(1 / noise, sample, -picture / noise, output);
}

interface Parts {
  readonly picture: number;
  readonly noise: number;
}
