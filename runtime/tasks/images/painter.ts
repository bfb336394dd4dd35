// From a request to finished pictures: text to vectors, noise by the seed, the denoising that requests share, pixels.
import { MicroBatcher } from "../../batch/micro-batcher.ts";
import { isMemoryFailure } from "../../onnx/session.ts";
import type { Encoded, Tokenizer } from "../../onnx/tokenizer.ts";
import type { TaskCall } from "../../server/engine.ts";
import type { TaskDeps } from "../task-engine.ts";
import { encodeAll, tokensOf } from "../text-graph.ts";
import { denoise, type Kept, type Painting } from "./denoise.ts";
import type { DiffusionGraphs } from "./diffusion-graphs.ts";
import { type GivenPicture, latentMask } from "./given-picture.ts";
import { normalNoise } from "./normal-noise.ts";
import { blended, planesOf, rgbOf } from "./picture-file.ts";
import type { ImageAsk } from "./request.ts";
import type { MakeSchedule } from "./schedule/read-schedule.ts";
import type { Latents } from "./schedule/schedule.ts";
import type { Sizes } from "./sizes.ts";

export interface Commission extends ImageAsk {
  /** Undefined: the bare model paints. */
  readonly adapter: string | undefined;
  readonly size: { readonly width: number; readonly height: number };
  readonly seed: number;
  readonly given: (GivenPicture & { readonly strength: number }) | undefined;
}

/** Returns the pipeline of the adapter of that name; call `done` after use. Throws RequestError. */
export type Borrow = (adapter: string) => { readonly graphs: DiffusionGraphs; done(): void };

export interface Painter {
  readonly sizes: Sizes;
  readonly takesPictures: boolean;
  readonly maxSteps: number;
  readonly batcher: { readonly running: number; readonly waiting: number };
  /** RGB by picture, in the order of their seeds. Keeps the call's usage up to date. Throws RequestError. */
  paint(commission: Commission, call: TaskCall): Promise<readonly Uint8Array[]>;
}

/** Latents that a run by itself is worth, and of all pictures of one run. */
const perRunLatents = 16;
const maxLatents = 32 * 64 * 64;

export function openPainter(
  deps: TaskDeps,
  base: DiffusionGraphs,
  borrow: Borrow,
  tokenizer: Tokenizer,
  schedules: { readonly make: MakeSchedule; readonly maxSteps: number },
): Painter {
  const batcher = new MicroBatcher<Painting, Latents | undefined>({
    maxBatchSize: deps.maxBatchSize,
    latencyBudgetMs: deps.latencyBudgetMs,
    costs: { perRun: perRunLatents, maxTokens: maxLatents },
    lengthOf: ({ size }) => size.width * size.height,
    run: denoise,
    isMemoryFailure,
    observe: deps.observe,
  });
  const padded = ({ ids }: Encoded) => [...ids, ...Array<number>(tokenizer.longest - ids.length).fill(tokenizer.padId)];
  return {
    sizes: base.sizes,
    takesPictures: base.takesPictures,
    maxSteps: schedules.maxSteps,
    batcher,
    async paint(commission, call) {
      if (commission.adapter === undefined) return paint(base, commission, call);
      const { graphs, done } = borrow(commission.adapter);
      try {
        return await paint(graphs, commission, call);
      } finally {
        done();
      }
    },
  };

  async function paint(graphs: DiffusionGraphs, commission: Commission, call: TaskCall): Promise<Uint8Array[]> {
    const { prompt, negative, guidance, size, given, n, seed, steps } = commission;
    const latentSize = { width: size.width / graphs.factor, height: size.height / graphs.factor };
    const isGuided = guidance > 1;
    const encoded = [
      ...(await encodeAll(tokenizer, [prompt], "prompt")),
      ...(isGuided ? await encodeAll(tokenizer, [negative], "negative_prompt") : []),
    ];
    call.usage.inputTokens = tokensOf(encoded);
    const [text, against] = await graphs.vectors(encoded.map(padded));
    if (!text) throw new TypeError("the text encoder gave no vectors");
    const schedule = schedules.make(steps);
    const run = given ? Math.max(1, Math.min(steps, Math.floor(steps * given.strength))) : steps;
    const clean = given && (await graphs.latents(planesOf(given.rgb), latentSize));
    const mask = given?.repainted && latentMask(given.repainted, size, graphs.factor);
    const from = steps - run;
    const done = Array<number>(n).fill(0);
    const paintings = done.map((_, index): Painting => {
      const noise = normalNoise(seed + index, graphs.channels * latentSize.width * latentSize.height);
      const kept: Kept | undefined = clean && mask && { clean, noise, share: mask };
      // A picture that is painted over completely starts as pure noise.
      const begun = clean && from > 0 ? schedule.noised(clean, noise, from) : undefined;
      return {
        graphs,
        key: JSON.stringify([latentSize, steps, from, isGuided]),
        size: latentSize,
        schedule,
        from,
        latents: begun ?? noise.map((value) => value * schedule.initialScale),
        text,
        against: isGuided ? against : undefined,
        guidance,
        kept,
        signal: call.signal,
        onStep: (count) => {
          done[index] = Math.min(count, run);
          const pixels = size.width * size.height;
          // A started picture is billed, also if the client disconnects.
          call.usage.units = {
            images: done.filter((one) => one > 0).length,
            imagePixelSteps: pixels * done.reduce((sum, one) => sum + one, 0),
          };
        },
      };
    });
    const pictures: Uint8Array[] = [];
    for (const latents of await batcher.submit(paintings, call.signal)) {
      call.signal.throwIfAborted();
      if (!latents) throw new TypeError("a picture that is waited for was not painted");
      const painted = rgbOf(await graphs.pixels(latents, latentSize));
      pictures.push(given?.repainted ? blended(painted, given.rgb, given.repainted) : painted);
    }
    return pictures;
  }
}
