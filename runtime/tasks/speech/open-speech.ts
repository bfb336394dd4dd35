// Text to speech as a task of the model server.

import { createDecoder, usualDecoding } from "../../audio/decode-audio.ts";
import { SoundWorker } from "../../audio/sound-worker.ts";
import { LoadFailure } from "../../llama/load-failure.ts";
import type { ModelFolder } from "../../onnx/model-folder.ts";
import type { OpenTask, TaskDeps } from "../task-engine.ts";
import { isKokoro, openKokoro } from "./kokoro.ts";
import { openPhonemizer } from "./phonemes.ts";
import { openPiper, piperConfig } from "./piper.ts";
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

export const kokoroPitchHz: ReadonlyMap<string, number> = new Map([
  ["af_alloy", 139.6],
  ["af_aoede", 175.3],
  ["af_bella", 186.2],
  ["af_heart", 194.7],
  ["af_jessica", 215.8],
  ["af_kore", 151.8],
  ["af_nicole", 139.2],
  ["af_nova", 153.6],
  ["af_river", 175.2],
  ["af_sarah", 191.8],
  ["af_sky", 166.5],
  ["am_adam", 111.2],
  ["am_echo", 99.4],
  ["am_eric", 153.4],
  ["am_fenrir", 126.6],
  ["am_liam", 113.2],
  ["am_michael", 104.7],
  ["am_onyx", 82.7],
  ["am_puck", 109.4],
  ["am_santa", 157.4],
  ["bf_alice", 221.3],
  ["bf_emma", 173.0],
  ["bf_isabella", 199.1],
  ["bf_lily", 167.7],
  ["bm_daniel", 130.8],
  ["bm_fable", 133.5],
  ["bm_george", 143.4],
  ["bm_lewis", 70.7],
]);
