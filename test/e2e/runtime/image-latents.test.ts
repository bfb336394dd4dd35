// The denoising loop on a real pipeline, from the reference's own noise: the latents that PyTorch ends with, by every scheduler.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openClipTokenizer } from "../../../runtime/onnx/clip-tokenizer.ts";
import { readModelFolder } from "../../../runtime/onnx/model-folder.ts";
import { Graphs } from "../../../runtime/onnx/open-graph.ts";
import { denoise } from "../../../runtime/tasks/images/denoise.ts";
import { type DiffusionGraphs, openDiffusionGraphs } from "../../../runtime/tasks/images/diffusion-graphs.ts";
import { readSchedule } from "../../../runtime/tasks/images/schedule/read-schedule.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";

const diffusion = sharedModel("digits-diffusion", "latents of a real diffusion pipeline by every scheduler");
const classes = {
  DDIM: "DDIMScheduler",
  Euler: "EulerDiscreteScheduler",
  PNDM: "PNDMScheduler",
  "DPM++ 2M": "DPMSolverMultistepScheduler",
};
interface Run {
  readonly scheduler: keyof typeof classes;
  readonly prompt: string;
  readonly steps: number;
  readonly timesteps: readonly number[];
  readonly init_noise_sigma: number;
  readonly final_latent: readonly number[];
}
const reference = diffusion ? referenceOf(diffusion) : { runs: [], tokens: {} };
const runs: readonly Run[] = reference.runs;

describe.runIf(diffusion)("the latents of a diffusion pipeline", () => {
  const options = { threads: 1, memoryBytes: 0, provider: "cpu", hasGpu: false, graphCacheDir: undefined } as const;
  let graphs: Graphs;
  let pipeline: DiffusionGraphs;
  let tokens: (text: string) => readonly number[];
  let config: Readonly<Record<string, unknown>>;
  beforeAll(async () => {
    graphs = new Graphs(options);
    const folder = await readModelFolder(diffusion as string);
    pipeline = await openDiffusionGraphs(graphs, folder, []);
    config = await folder.json("scheduler/scheduler_config.json");
    // Older exports keep the vocabulary and the merges alone.
    const older = {
      ...folder,
      json: async (name: string) => (name.endsWith("tokenizer.json") ? {} : folder.json(name)),
    };
    const tokenizer = await openClipTokenizer(older, "tokenizer");
    tokens = (text) => tokenizer.encode(text).ids;
  });
  afterAll(() => graphs?.close());

  it("come from the reference's tokens, read from CLIP's vocabulary and merges", () => {
    for (const [text, ids] of Object.entries(reference.tokens)) expect(tokens(text), text).toEqual(ids);
  });

  it.each(runs)("equal PyTorch's for $scheduler and '$prompt'", async (run) => {
    const schedule = readSchedule({ ...config, _class_name: classes[run.scheduler], skip_prk_steps: true })(run.steps);
    expect(schedule.timesteps).toEqual(run.timesteps);
    expect(schedule.initialScale).toBeCloseTo(run.init_noise_sigma, 4);
    const padded = (text: string) => [...tokens(text), ...Array<number>(77).fill(601)].slice(0, 77);
    const [against, text] = await pipeline.vectors([padded(""), padded(run.prompt)]);
    if (!text) throw new Error("no vectors");
    const noise = Float32Array.from(reference.initial_noise as number[], (value) => value * schedule.initialScale);
    const painting = {
      graphs: pipeline,
      key: "",
      size: { width: 8, height: 8 },
      schedule,
      from: 0,
      latents: noise,
      text,
      against,
    };
    const rest = { guidance: 4, kept: undefined, signal: new AbortController().signal, onStep: () => {} };
    const [found] = await denoise([{ ...painting, ...rest }]);
    // The reference is rounded to four decimals.
    for (const [at, value] of run.final_latent.entries())
      expect(Math.abs((found?.[at] ?? Number.NaN) - value)).toBeLessThan(0.001);
  });
});
