// Euler's method on the noise as k-diffusion counts it. Source: https://arxiv.org/abs/2206.00364, algorithm 2 without churn,
// as diffusers' EulerDiscreteScheduler runs it.
import { type NoiseLevels, sigmaAt, spacedSteps } from "./noise-levels.ts";
import { type Latents, mixed, type Schedule, times } from "./schedule.ts";

export function euler(levels: NoiseLevels, steps: number): Schedule {
  const timesteps = spacedSteps(levels, steps);
  const sigmas = [...timesteps.map((step) => sigmaAt(levels, step)), 0];
  const sigma = (i: number) => sigmas[i] as number;
  const maxSigma = Math.max(...sigmas);
  return {
    timesteps,
    initialScale: levels.spacing === "leading" ? Math.sqrt(maxSigma ** 2 + 1) : maxSigma,
    scaled: (sample, i) => times(1 / Math.sqrt(sigma(i) ** 2 + 1), sample),
    noised: (clean, noise, i) => mixed(1, clean, sigma(i), noise),
    stepper: () => ({
      step: (output, i, sample) => {
        const picture = pictureOf(levels.prediction, output, sample, sigma(i));
        // sample + (sample - picture) / sigma * (next - sigma)
        const share = sigma(i + 1) / sigma(i);
        return mixed(share, sample, 1 - share, picture);
      },
    }),
  };
}

function pictureOf(prediction: NoiseLevels["prediction"], output: Latents, sample: Latents, sigma: number): Latents {
  switch (prediction) {
    case "epsilon":
      return mixed(1, sample, -sigma, output);
    case "v_prediction":
      return mixed(1 / (sigma ** 2 + 1), sample, -sigma / Math.sqrt(sigma ** 2 + 1), output);
    case "sample":
      return output;
    default:
      return prediction satisfies never;
  }
}
