// Speech recognition as a task of the model server.

import { createDecoder, usualDecoding } from "../../audio/decode-audio.ts";
import { SoundWorker } from "../../audio/sound-worker.ts";
import { FairTurns } from "../../batch/fair-turns.ts";
import { LoadFailure } from "../../llama/load-failure.ts";
import { checkGraph } from "../../onnx/check-graph.ts";
import type { ModelFolder } from "../../onnx/model-folder.ts";
import { openWhisper } from "../../onnx/whisper.ts";
import type { OpenTask, TaskDeps } from "../task-engine.ts";
import type { Recogniser } from "./recogniser.ts";
import { type TranscriptionDeps, transcriptionRoute } from "./route.ts";

/** Throws LoadFailure. */
export async function openTranscription(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const type = String(folder.config["model_type"] ?? "");
  if (type !== "whisper")
    throw new LoadFailure("unsupported model", `speech recognition here is by Whisper models, and this is ${type}`);
  for (const graph of folder.graphs) await checkGraph(folder.path(graph), folder.root);
  const { threads, hasGpu } = deps.graphs.granted;
  let recogniser: Recogniser;
  try {
    recogniser = await open(folder.root, threads, hasGpu, deps);
    // The first run allocates what every later one uses.
    const ask = { language: undefined, translates: false, prompt: [], temperature: 0, wantsWords: false };
    await recogniser.hear(new Float32Array(recogniser.rate), ask, new AbortController().signal);
  } catch (error) {
    throw new LoadFailure("model could not be loaded", (error as Error).message, { cause: error });
  }
  const { counted, load } = inTurns(recogniser, (ms) => deps.observe({ kind: "ran", items: 1, ms }));
  const decode = createDecoder({ ...usualDecoding, worker: new SoundWorker() });
  const route: TranscriptionDeps = { recogniser: counted, decode };
  return {
    contextLength: 0,
    routes: new Map([
      ["/v1/audio/transcriptions", transcriptionRoute(route, "transcribe")],
      ["/v1/audio/translations", transcriptionRoute(route, "translate")],
    ]),
    load,
    close: () => recogniser.close(),
  };
}

/** On the GPU where one was granted; without it as well as the processor can. */
async function open(root: string, threads: number, hasGpu: boolean, { graphs }: TaskDeps): Promise<Recogniser> {
  const refused: string[] = [];
  for (const device of hasGpu ? (["cuda", "cpu"] as const) : (["cpu"] as const)) {
    try {
      const recogniser = await openWhisper(root, { threads, device });
      graphs.opened(hasGpu ? ["cuda", "cpu"] : ["cpu"], device, refused);
      return recogniser;
    } catch (error) {
      if (device === "cpu") throw error;
      refused.push(`${device}: ${(error as Error).message}`);
    }
  }
  throw new Error("no execution provider was tried");
}

/** Tenants take turns window by window: a recording of hours lets others in after each of its windows. */
export function inTurns(recogniser: Recogniser, onHeard: (ms: number) => void) {
  const turns = new FairTurns();
  const inTurn = <T>(window: Float32Array, signal: AbortSignal, work: () => Promise<T>) =>
    turns.run(work, signal, window.length / recogniser.rate);
  const counted: Recogniser = {
    ...recogniser,
    detectLanguage: (window, signal) => inTurn(window, signal, () => recogniser.detectLanguage(window, signal)),
    hear: (window, ask, signal) =>
      inTurn(window, signal, async () => {
        const startedAt = performance.now();
        try {
          return await recogniser.hear(window, ask, signal);
        } finally {
          onHeard(performance.now() - startedAt);
        }
      }),
  };
  return { counted, load: () => ({ running: turns.running, waiting: turns.waiting }) };
}
