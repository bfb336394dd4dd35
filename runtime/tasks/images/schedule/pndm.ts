// PNDM's linear multi-step method, begun by two evaluations at one step instead of Runge-Kutta's.
// Source: https://arxiv.org/abs/2202.09778, formula 9, as diffusers' PNDMScheduler runs it with skip_prk_steps.
import { noisedAt } from "./ddim.ts";
import { type NoiseLevels, spacedSteps } from "./noise-levels.ts";
import { type Latents, mixed, type Schedule, type Stepper } from "./schedule.ts";

export function pndm(levels: NoiseLevels, steps: number): Schedule {
  const plain = spacedSteps(levels, steps).map(Math.round);
  const isRepeated = plain.length > 1;
  const timesteps = isRepeated ? [plain[0] as number, plain[1] as number, ...plain.slice(1)] : plain;
  return {
    timesteps,
    initialScale: 1,
    scaled: (sample) => sample,
    noised: (clean, noise, i) => noisedAt(levels, clean, noise, timesteps[i]),
    stepper: () => stepper(levels, timesteps, Math.floor(levels.count / steps)),
  };
}

const weights = [[1], [1.5, -0.5], [23 / 12, -16 / 12, 5 / 12], [55 / 24, -59 / 24, 37 / 24, -9 / 24]] as const;

function stepper(levels: NoiseLevels, timesteps: readonly number[], stride: number): Stepper {
  let counter = 0;
  let said: Latents[] = [];
  let before: Latents | undefined;
  return {
    step(output, i, sample) {
      const now = timesteps[i] as number;
      const nth = counter;
      counter += 1;
      if (nth === 1) {
        // The same step once more, by the mean of the model's outputs before and after it.
        const mean = mixed(0.5, output, 0.5, said[0] as Latents);
        return moved(levels, before as Latents, now + stride, now, mean);
      }
      said = [output, ...said.slice(0, 3)];
      before = sample;
      const shares = weights[said.length - 1] as readonly number[];
      const sum = new Float32Array(output.length);
      for (const [k, one] of said.entries())
        for (let at = 0; at < sum.length; at++)
          sum[at] = (sum[at] as number) + (shares[k] as number) * (one[at] as number);
      return moved(levels, sample, now, now - stride, sum);
    },
  };
}

function moved({ kept, keptAtEnd, prediction }: NoiseLevels, sample: Latents, from: number, to: number, said: Latents) {
  const share = (step: number) => (step >= 0 ? (kept[Math.min(step, kept.length - 1)] as number) : keptAtEnd);
  const here = share(from);
  const next = share(to);
  const noise = prediction === "v_prediction" ? mixed(Math.sqrt(here), said, Math.sqrt(1 - here), sample) : said;
  const divisor = here * Math.sqrt(1 - next) + Math.sqrt(here * (1 - here) * next);
  return mixed(Math.sqrt(next / here), sample, -(next - here) / divisor, noise);
}
