// Text to image by a latent diffusion pipeline of ONNX graphs, in the folder layout of Stable Diffusion.
import { readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { LoadFailure } from "../../llama/load-failure.ts";
import { AdapterRefusal } from "../../llama/lora/adapter-refusal.ts";
import { openClipTokenizer } from "../../onnx/clip-tokenizer.ts";
import type { ModelFolder } from "../../onnx/model-folder.ts";
import type { OpenTask, TaskDeps } from "../task-engine.ts";
import { createAdapterPipelines } from "./adapter/adapter-pipelines.ts";
import { adaptedGraphs, openDiffusionGraphs } from "./diffusion-graphs.ts";
import { openPainter } from "./painter.ts";
import { imageRoutes } from "./route.ts";
import { readSchedule } from "./schedule/read-schedule.ts";

const usual = { steps: 20, guidance: 7.5 };

/** Throws LoadFailure. */
export async function openPainting(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const index = await folder.json("model_index.json");
  for (const part of ["text_encoder_2", "transformer", "controlnet", "prior"])
    if (isPart(index[part]))
      throw new LoadFailure(
        "unsupported pipeline",
        `${folder.root} is a ${String(index["_class_name"])} with a ${part}; this model server paints with pipelines of Stable Diffusion 1 and 2's form`,
      );
  const scheduler = await folder.json("scheduler/scheduler_config.json");
  const make = readSchedule(scheduler);
  const tokenizer = await openClipTokenizer(folder, "tokenizer");
  const graphs = await openDiffusionGraphs(deps.graphs, folder, deps.imageAdapters ?? [], deps.scratchDir).catch(
    (error) => {
      if (!(error instanceof AdapterRefusal)) throw error;
      throw new LoadFailure("image adapter not usable", error.message, { cause: error });
    },
  );
  const maxSteps = Math.floor(Number(scheduler["num_train_timesteps"] ?? 1000) / 2);
  const adapters = createAdapterPipelines({
    open: (adapter) => graphs.adapted(adapter),
    ownBytes: () =>
      bytesIn([dirname(folder.path(adaptedGraphs.unet)), dirname(folder.path(adaptedGraphs.text_encoder))]),
    memoryBytes: deps.memoryBytes,
    usedBytes: () => process.memoryUsage.rss(),
  });
  const painter = openPainter(deps, graphs, adapters.borrow, tokenizer, { make, maxSteps });
  await graphs.warmUp(tokenizer.longest);
  return {
    contextLength: tokenizer.longest,
    routes: imageRoutes(painter, usual, () => adapters.adapters),
    adapterHost: adapters,
    load: () => painter.batcher,
  };
}

const isPart = (value: unknown) => Array.isArray(value) && value.some((one) => one !== null);

/** Graphs keep their weights in files beside them. */
async function bytesIn(folders: readonly string[]): Promise<number> {
  let bytes = 0;
  for (const folder of folders)
    for (const name of await readdir(folder))
      if (!name.endsWith(".json")) bytes += (await stat(join(folder, name))).size;
  return bytes;
}
