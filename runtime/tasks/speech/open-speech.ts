// Text to speech as a task of the model server.
import { createDecoder, usualDecoding } from "../../audio/decode-audio.ts";
import { SoundWorker } from "../../audio/sound-worker.ts";
import { LoadFailure } from "../../llama/load-failure.ts";
import type { ModelFolder } from "../../onnx/model-folder.ts";
import type { TaskDeps } from "../task-deps.ts";
import type { OpenTask } from "../task-engine.ts";
import { isKokoro, openKokoro } from "./kokoro.ts";
import { openPhonemizer } from "./phonemes.ts";
import { openPiper, piperConfig } from "./piper.ts";
import { kokoroPitchHz } from "./preset-pitch.ts";
import { speechRoute } from "./route.ts";
import type { Synthesiser } from "./synthesiser.ts";
import { voiceRoute } from "./voice-route.ts";

/** Throws LoadFailure. */
export async function openSpeech(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const synthesiser = await open(deps, folder);
  // The first run allocates what every later one uses.
  const [preset, speed] = [synthesiser.defaultVoice, 1];
  const voice = [{ preset, weight: 1 }];
  await synthesiser.speak("Hello.", { voice, language: synthesiser.languageOf(voice), speed });
  let running = 0;
  const counted: Synthesiser = {
    ...synthesiser,
    speak(text, manner) {
      const startedAt = performance.now();
      const made = synthesiser.speak(text, manner);
      if (!made) return undefined;
      running += 1;
      return made.finally(() => {
        running -= 1;
        deps.observe({ kind: "ran", items: 1, ms: performance.now() - startedAt });
      });
    },
  };
  const routes = new Map([["/v1/audio/speech", speechRoute(counted)]]);
  const known = [...kokoroPitchHz].filter(([name]) => synthesiser.presets.includes(name));
  if (synthesiser.canBlend && known.length > 0) {
    const worker = new SoundWorker();
    const decode = createDecoder({ ...usualDecoding, worker });
    routes.set("/v1/audio/voices", voiceRoute({ decode, worker, presetsHz: new Map(known) }));
  }
  return { contextLength: 0, routes, load: () => ({ running, waiting: 0 }) };
}

async function open({ graphs }: TaskDeps, folder: ModelFolder): Promise<Synthesiser> {
  const config = await piperConfig(folder);
  if (config) return openPiper(folder, config, graphs, await openPhonemizer());
  if (await isKokoro(folder)) return openKokoro(folder, graphs, await openPhonemizer());
  const what = "neither a Kokoro model (voices/*.bin beside it) nor a Piper voice (its graph's .onnx.json beside it)";
  throw new LoadFailure("unsupported model", `${folder.root} holds ${what}`);
}
