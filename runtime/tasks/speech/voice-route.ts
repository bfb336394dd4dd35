// POST /v1/audio/voices: recordings of a speaker -> a blend of presets, and what was measured for it. The model cannot clone:
// the response states this, and a speech request uses its `voice`.

import { unitsHeader } from "../../../proto/usage.ts";
import type { DecodeAudio } from "../../audio/decode-audio.ts";
import type { Recording } from "../../audio/recording.ts";
import { AudioRefusal, type Sound } from "../../audio/sound.ts";
import type { SoundWorker } from "../../audio/sound-worker.ts";
import type { TaskCall, TaskRoute } from "../../server/engine.ts";
import { readForm } from "../../server/read-form.ts";
import { invalid, RequestError, unusable } from "../../server/request-error.ts";
import { writeJson } from "../../server/write-json.ts";
import { type Voice, voiceText } from "./voice.ts";

const rate = 16_000;
/** A longer recording does not improve the measurement. */
const maxSeconds = 120;

export interface VoiceRouteDeps {
  readonly decode: DecodeAudio;
  readonly worker: SoundWorker;
  /** Median pitch of each preset that may be mixed, in Hz. */
  readonly presetsHz: ReadonlyMap<string, number>;
}

export function voiceRoute(deps: VoiceRouteDeps): TaskRoute {
  return { operation: "inference", run: (call) => answer(deps, call) };
}

async function answer({ decode, worker, presetsHz }: VoiceRouteDeps, call: TaskCall): Promise<void> {
  const { files } = await readForm(call.request);
  if (files.length === 0) throw invalid("files", "files is required: one or more recordings of the speaker");
  const recordings: Recording[] = [];
  for (const { bytes } of files)
    recordings.push(await decode(bytes, rate, call.signal, call.maxAudioMs).catch(refused));
  const audioMs = Math.ceil(recordings.reduce((sum, { seconds }) => sum + seconds, 0) * 1000);
  call.usage.units = { audioMs };
  const sound = await joinedUpTo(recordings, maxSeconds)
    .catch(refused)
    .finally(() => {
      for (const recording of recordings) recording.close();
    });
  const pitchHz = await worker.medianPitchHz(sound, call.signal);
  const voice = pitchHz === undefined ? undefined : blendFor(pitchHz, presetsHz);
  if (pitchHz === undefined || !voice)
    throw unusable("files", "the recordings contain no speech; send a few clear sentences of one speaker", "no_voice");
  const body = {
    kind: "blend",
    voice: voiceText(voice),
    blend: voice.map(({ preset, weight }) => ({ voice: preset, weight: Number(weight.toFixed(4)) })),
    measured: { median_pitch_hz: Number(pitchHz.toFixed(1)), seconds: audioMs / 1000 },
    note: "A mixture of the model's own voices, weighted by the pitch measured in the recordings. It is no clone of the speaker.",
  };
  writeJson(call.response, 200, body, { [unitsHeader]: `audio_ms=${audioMs}` });
}

async function joinedUpTo(recordings: readonly Recording[], seconds: number): Promise<Sound> {
  const all = recordings.reduce((sum, { length }) => sum + length, 0);
  const samples = new Float32Array(Math.min(seconds * rate, all));
  let at = 0;
  for (const recording of recordings) {
    const part = await recording.samples(0, samples.length - at);
    samples.set(part, at);
    at += part.length;
  }
  return { samples, rate };
}

function refused(error: unknown): never {
  if (!(error instanceof AudioRefusal)) throw error;
  throw new RequestError(400, error.message, { param: "files", code: "invalid_audio", cause: error });
}

const max = 3;

/** `presetsHz`: median pitch by preset. Undefined where nothing is known of the presets. */
export function blendFor(pitchHz: number, presetsHz: ReadonlyMap<string, number>): Voice | undefined {
  // Perceived pitch is logarithmic: an octave is as far at 100 Hz as at 200.
  const distance = (hz: number) => Math.abs(Math.log2(hz / pitchHz));
  const nearest = [...presetsHz].sort(([, a], [, b]) => distance(a) - distance(b)).slice(0, max);
  if (nearest.length === 0) return undefined;
  // A hundredth of an octave is no difference, and keeps the weights finite.
  const parts = nearest.map(([preset, hz]) => ({ preset, weight: 1 / (distance(hz) + 0.01) }));
  const total = parts.reduce((sum, { weight }) => sum + weight, 0);
  return parts.map(({ preset, weight }) => ({ preset, weight: weight / total }));
}
