// POST /v1/audio/transcriptions and /v1/audio/translations.

import { unitsHeader } from "../../../proto/usage.ts";
import type { DecodeAudio } from "../../audio/decode-audio.ts";
import type { Recording } from "../../audio/recording.ts";
import { AudioRefusal } from "../../audio/sound.ts";
import type { TaskCall, TaskRoute } from "../../server/engine.ts";
import { EventStream } from "../../server/event-stream.ts";
import { readForm } from "../../server/read-form.ts";
import { invalid, RequestError } from "../../server/request-error.ts";
import type { Recogniser } from "./recogniser.ts";
import { renderTranscript } from "./render.ts";
import { readTranscription } from "./request.ts";
import { type TranscribeAsk, transcribe } from "./transcribe.ts";

export interface TranscriptionDeps {
  readonly recogniser: Recogniser;
  readonly decode: DecodeAudio;
}

export function transcriptionRoute(deps: TranscriptionDeps, task: TranscribeAsk["task"]): TaskRoute {
  return { operation: "transcription", run: (call) => answer(deps, task, call) };
}

async function answer({ recogniser, decode }: TranscriptionDeps, task: TranscribeAsk["task"], call: TaskCall) {
  const { request, response, signal, usage } = call;
  const { fields, files } = await readForm(request);
  const { ask, form, showsSegments, isStream } = readTranscription(fields, task, recogniser);
  const file = files.find(({ name }) => name === "file" || name === "audio");
  if (!file) throw invalid("file", "file is required: the audio, as a part with a file name");
  const recording = await decode(file.bytes, recogniser.rate, signal, call.maxAudioMs).catch(refused);
  const audioMs = Math.ceil(recording.seconds * 1000);
  // From here on the transcribed audio is billed, also if the client disconnects.
  usage.units = { audioMs };
  const units = `audio_ms=${audioMs}`;
  if (isStream) {
    await streamed(recogniser, recording, ask, call, units);
    return;
  }
  const transcript = await transcribe(recogniser, recording, ask, signal)
    .catch(refused)
    .finally(() => recording.close());
  usage.outputTokens = transcript.outputTokens;
  if (signal.aborted) return;
  call.onFirstToken();
  const { contentType, body } = renderTranscript(transcript, form, showsSegments);
  const bytes = Buffer.from(body);
  response.writeHead(200, {
    "content-type": contentType,
    "content-length": bytes.length,
    [unitsHeader]: units,
  });
  response.end(bytes);
}

/** Events with the text of each segment, as soon as its window is transcribed. */
async function streamed(
  recogniser: Recogniser,
  recording: Recording,
  ask: TranscribeAsk,
  { response, signal, usage, onFirstToken }: TaskCall,
  units: string,
): Promise<void> {
  response.setHeader("trailer", unitsHeader);
  const events = new EventStream(response);
  let hasText = false;
  try {
    const { text, seconds, outputTokens } = await transcribe(recogniser, recording, ask, signal, (segment) => {
      if (!hasText) onFirstToken();
      const delta = hasText ? segment.text : segment.text.trimStart();
      hasText = true;
      void events.send(JSON.stringify({ type: "transcript.text.delta", delta }));
    }).catch(refused);
    usage.outputTokens = outputTokens;
    if (!hasText) onFirstToken();
    void events.send(
      JSON.stringify({ type: "transcript.text.done", text, usage: { type: "duration", seconds: Math.ceil(seconds) } }),
    );
    response.addTrailers({ [unitsHeader]: units });
    events.end();
  } catch (error) {
    // A truncated transcript must not look complete.
    if (events.hasStarted) response.destroy();
    throw error;
  } finally {
    recording.close();
  }
}

function refused(error: unknown): never {
  if (!(error instanceof AudioRefusal)) throw error;
  throw new RequestError(400, error.message, { param: "file", code: codes[error.code], cause: error });
}

const codes = { unreadable: "invalid_audio", too_long: "audio_too_long", no_decoder: "unsupported_audio" } as const;
