// Text to image by a latent diffusion pipeline of ONNX graphs, in the folder layout of Stable Diffusion.
import { LoadFailure } from "../../llama/load-failure.ts";
import { openClipTokenizer } from "../../onnx/clip-tokenizer.ts";
import type { ModelFolder } from "../../onnx/model-folder.ts";
import type { TaskDeps } from "../task-deps.ts";
import type { OpenTask } from "../task-engine.ts";
import { openDiffusionGraphs } from "./diffusion-graphs.ts";
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
  const graphs = await openDiffusionGraphs(deps.graphs, folder, deps.imageAdapters ?? []);
  const mostSteps = Math.floor(Number(scheduler["num_train_timesteps"] ?? 1000) / 2);
  const painter = openPainter(deps, graphs, tokenizer, { make, mostSteps });
  await graphs.warmUp(tokenizer.longest);
  return {
    contextLength: tokenizer.longest,
    routes: imageRoutes(painter, usual),
    load: () => painter.batcher,
  };
}

const isPart = (value: unknown) => Array.isArray(value) && value.some((one) => one !== null);
