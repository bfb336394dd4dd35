// DDIM without added noise. Source: https://arxiv.org/abs/2010.02502, equation 12, as diffusers' DDIMScheduler runs it.
import { type NoiseLevels, spacedSteps } from "./noise-levels.ts";
import { type Latents, mixed, type Schedule } from "./schedule.ts";

/** `clip`: bound of the guessed picture; undefined: none. */
export function ddim(levels: NoiseLevels, steps: number, clip: number | undefined): Schedule {
  const { kept, keptAtEnd, count, prediction } = levels;
  const timesteps = spacedSteps(levels, steps).map(Math.round);
  const keptAt = (step: number) => (step >= 0 ? (kept[Math.min(step, count - 1)] as number) : keptAtEnd);
  return {
    timesteps,
    extra: 0,
    initialScale: 1,
    scaled: (sample) => sample,
    noised: (clean, noise, i) => noisedAt(levels, clean, noise, timesteps[i]),
    stepper: () => ({
      step(said, i, sample) {
        const now = timesteps[i] as number;
        const here = keptAt(now);
        const next = keptAt(now - Math.floor(count / steps));
        const { picture, noise } = parted(prediction, said, sample, here);
        const bounded = clip === undefined ? picture : picture.map((v) => Math.max(-clip, Math.min(clip, v)));
        return mixed(Math.sqrt(next), bounded, Math.sqrt(1 - next), noise);
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

/** The picture and the noise that the sample is a mixture of, by what the model says of it. */
function parted(prediction: NoiseLevels["prediction"], said: Latents, sample: Latents, share: number) {
  const a = Math.sqrt(share);
  const b = Math.sqrt(1 - share);
  switch (prediction) {
    case "epsilon":
      return { picture: mixed(1 / a, sample, -b / a, said), noise: said };
    case "v_prediction":
      return { picture: mixed(a, sample, -b, said), noise: mixed(a, said, b, sample) };
    case "sample":
      return { picture: said, noise: mixed(1 / b, sample, -a / b, said) };
    default:
      return prediction satisfies never;
  }
}
