// The loop that takes the noise out, for several pictures at once. Pictures of one size and the same steps share every
// evaluation; one that is no longer needed is removed between two steps.
import type { DiffusionGraphs, LatentSize, TextVectors } from "./diffusion-graphs.ts";
import { type Latents, mixed, type Schedule } from "./schedule/schedule.ts";

/** Unchanged part of a picture that is edited in part. */
export interface Kept {
  readonly clean: Latents;
  readonly noise: Latents;
  /** 1 for latents that are painted again. */
  readonly share: Float32Array;
}

export interface Painting {
  /** With the adapter it is painted with, or without. */
  readonly graphs: Pick<DiffusionGraphs, "guess">;
  /** Pictures with the same graphs and key have the same size, schedule, start and kind of guidance. */
  readonly key: string;
  readonly size: LatentSize;
  readonly schedule: Schedule;
  /** The first evaluation; 0 unless a picture was given. */
  readonly from: number;
  /** As it is before that evaluation. */
  readonly latents: Latents;
  readonly text: TextVectors;
  /** Negative prompt; undefined: no guidance. */
  readonly against: TextVectors | undefined;
  readonly guidance: number;
  readonly kept: Kept | undefined;
  readonly signal: AbortSignal;
  /** Before each evaluation; `done` of this request's own count, this one included. */
  readonly onStep: (done: number) => void;
}

/** Latents by picture; undefined for one that is no longer needed. */
export async function denoise(paintings: readonly Painting[]): Promise<(Latents | undefined)[]> {
  const found = new Map<Painting, Latents>();
  for (const [graphs, same] of Map.groupBy(paintings, (painting) => painting.graphs))
    for (const group of Map.groupBy(same, ({ key }) => key).values()) await denoiseGroup(graphs, group, found);
  return paintings.map((painting) => found.get(painting));
}

async function denoiseGroup(
  graphs: Pick<DiffusionGraphs, "guess">,
  group: readonly Painting[],
  found: Map<Painting, Latents>,
): Promise<void> {
  const [{ schedule, from, size }] = group as [Painting];
  let states = group.map((painting) => ({ painting, latents: painting.latents, stepper: schedule.stepper() }));
  for (let i = from; i < schedule.timesteps.length; i++) {
    states = states.filter(({ painting }) => !painting.signal.aborted);
    if (states.length === 0) return;
    for (const { painting } of states) painting.onStep(i - from + 1);
    const outputs = await guesses(graphs, size, i, states);
    for (const [row, state] of states.entries()) {
      const stepped = state.stepper.step(outputs[row] as Latents, i, state.latents);
      state.latents = restored(state.painting, stepped, i + 1);
    }
  }
  for (const { painting, latents } of states) found.set(painting, latents);
}

/** Prediction of each sample, guided away from the prediction for the negative prompt. */
async function guesses(
  graphs: Pick<DiffusionGraphs, "guess">,
  size: LatentSize,
  i: number,
  states: readonly { readonly painting: Painting; readonly latents: Latents }[],
): Promise<Latents[]> {
  const [{ painting: first }] = states as [(typeof states)[number]];
  const { schedule } = first;
  const samples = states.map(({ latents }) => schedule.scaled(latents, i));
  const texts = states.map(({ painting }) => painting.text);
  const timestep = schedule.timesteps[i] as number;
  if (!first.against) return graphs.guess(samples, size, timestep, texts);
  const against = states.map(({ painting }) => painting.against as TextVectors);
  const all = await graphs.guess([...samples, ...samples], size, timestep, [...against, ...texts]);
  return states.map(({ painting: { guidance } }, row) =>
    mixed(guidance, all[states.length + row] as Latents, 1 - guidance, all[row] as Latents),
  );
}

/** Outside of the mask the picture that was given, with as much noise as the rest still has. */
function restored({ kept, schedule }: Painting, latents: Latents, i: number): Latents {
  if (!kept) return latents;
  const before = schedule.noised(kept.clean, kept.noise, i);
  const { share } = kept;
  return latents.map((value, at) => {
    const repainted = share[at % share.length] as number;
    return repainted * value + (1 - repainted) * (before[at] as number);
  });
}
