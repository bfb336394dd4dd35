// POST /v1/audio/voices: recordings of a speaker -> a blend of presets, and what was measured for it. The model cannot clone:
// the answer says so, and its `voice` is what a speech request names.

import { unitsHeader } from "../../../proto/usage.ts";
import type { DecodeAudio } from "../../audio/decode-audio.ts";
import { medianPitchHz } from "../../audio/pitch.ts";
import { AudioRefusal, type Sound, secondsOf } from "../../audio/sound.ts";
import type { TaskCall, TaskRoute } from "../../server/engine.ts";
import { readForm } from "../../server/read-form.ts";
import { invalid, RequestError } from "../../server/request-error.ts";
import { writeJson } from "../../server/write-json.ts";
import { blendFor } from "./blend.ts";
import { voiceText } from "./voice.ts";

const rate = 16_000;
/** More of it does not tell more. */
const mostSeconds = 120;

export interface VoiceRouteDeps {
  readonly decode: DecodeAudio;
  /** Median pitch of each preset that may be mixed, in Hz. */
  readonly presetsHz: ReadonlyMap<string, number>;
}

export function voiceRoute(deps: VoiceRouteDeps): TaskRoute {
  return { operation: "inference", run: (call) => answer(deps, call) };
}

async function answer({ decode, presetsHz }: VoiceRouteDeps, call: TaskCall): Promise<void> {
  const { files } = await readForm(call.request);
  if (files.length === 0) throw invalid("files", "files is required: one or more recordings of the speaker");
  const sounds: Sound[] = [];
  for (const { bytes } of files) sounds.push(await decode(bytes, rate, call.signal).catch(refused));
  const audioMs = Math.ceil(sounds.reduce((sum, sound) => sum + secondsOf(sound), 0) * 1000);
  call.usage.units = { audioMs };
  const pitchHz = medianPitchHz(joinedUpTo(sounds, mostSeconds));
  const voice = pitchHz === undefined ? undefined : blendFor(pitchHz, presetsHz);
  if (pitchHz === undefined || !voice)
    throw new RequestError(
      400,
      "nobody is heard speaking in the recordings; send a few clear sentences of one speaker",
      {
        param: "files",
        code: "no_voice",
      },
    );
  const body = {
    kind: "blend",
    voice: voiceText(voice),
    blend: voice.map(({ preset, weight }) => ({ voice: preset, weight: Number(weight.toFixed(4)) })),
    measured: { median_pitch_hz: Number(pitchHz.toFixed(1)), seconds: audioMs / 1000 },
    note: "A mixture of the model's own voices, weighted by the pitch measured in the recordings. It is no clone of the speaker.",
  };
  writeJson(call.response, 200, body, { [unitsHeader]: `audio_ms=${audioMs}` });
}

function joinedUpTo(sounds: readonly Sound[], seconds: number): Sound {
  const samples = new Float32Array(
    Math.min(
      seconds * rate,
      sounds.reduce((sum, one) => sum + one.samples.length, 0),
    ),
  );
  let at = 0;
  for (const sound of sounds) {
    const part = sound.samples.subarray(0, samples.length - at);
    samples.set(part, at);
    at += part.length;
  }
  return { samples, rate };
}

function refused(error: unknown): never {
  if (!(error instanceof AudioRefusal)) throw error;
  throw new RequestError(400, error.message, { param: "files", code: "invalid_audio", cause: error });
}
