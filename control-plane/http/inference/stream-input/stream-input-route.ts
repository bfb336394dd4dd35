// Path, key and options of ElevenLabs' speech from streamed text.
import type { TSchema } from "typebox";
import { audioFormats } from "../../../../proto/audio-formats.ts";
import { wavHeader } from "../../../../proto/wav.ts";
import type { Spine } from "../../../inference/complete.ts";
import { invalid } from "../../../service-error.ts";
import { speechFormatUnknown } from "../../errors/errors.ts";
import { refusalOf } from "../../errors/render-error.ts";
import { policyViolation } from "../../sockets/open-socket.ts";
import type { SocketRequest, SocketRoute } from "../../sockets/socket-route.ts";
import type { Validate } from "../inference-entry.ts";
import type { OwnVoice } from "../tasks/own-voice.ts";
import { speechFormat } from "../tasks/speech.ts";
import { speechModel } from "../tasks/speech-model.ts";
import { StreamInputMessage, StreamInputSession } from "./stream-input-session.ts";

/** Each piece is a file of its own, and FLAC files cannot be joined. */
const joinable = audioFormats.filter((format) => format !== "flac");
/** A WAV file is one header before the samples of all pieces. */
const wavHead = wavHeader(24_000);
const defaultFormat = "mp3_44100_128";
const inactivitySeconds = { usual: 20, max: 180 };

export function streamInputRoute(
  spine: Spine,
  voices: OwnVoice,
  chosenModel: string | undefined,
  compile: (schema: TSchema) => Validate,
): SocketRoute {
  const validate = compile(StreamInputMessage);
  return {
    path: "/v1/text-to-speech/:voice_id/stream-input",
    dialect: "voices",
    matches: /^\/v1\/text-to-speech\/(?<voice>[^/]{1,512})\/stream-input\/?$/,
    right: "infer",
    keyIn: keyOf,
    errorMessage: (error, requestId) => {
      const { message, code } = refusalOf(error);
      return { message, error: code, code: policyViolation, request_id: requestId };
    },
    check(request) {
      readOptions(request);
    },
    open(socket, request) {
      const { format, language, isAuto, idleMs, model, voice } = readOptions(request);
      return new StreamInputSession(socket, {
        async speaker() {
          const { caller } = socket;
          const speaker = model ?? speechModel(spine.models, caller, chosenModel, voice);
          return { model: speaker, voice: await voices(caller, speaker, voice) };
        },
        format: format === "wav" ? "pcm" : format,
        head: format === "wav" ? wavHead : undefined,
        language,
        isAuto,
        idleMs,
        validate,
      });
    },
  };
}

function readOptions({ params, query }: SocketRequest) {
  const code = query.get("output_format") || defaultFormat;
  const format = speechFormat(code);
  if (!format) throw speechFormatUnknown(code, "query");
  if (format === "flac") throw unsupported("output_format", `\`output_format\` must be one of ${joinable.join(", ")}.`);
  const language = query.get("language_code") || undefined;
  if (language !== undefined && !/^[A-Za-z]{2}$/.test(language))
    throw unsupported("language_code", "`language_code` must be two letters of ISO 639-1.");
  const timeout = query.get("inactivity_timeout");
  const seconds = timeout === null ? inactivitySeconds.usual : Number(timeout);
  if (!(seconds >= 1 && seconds <= inactivitySeconds.max))
    throw unsupported("inactivity_timeout", `\`inactivity_timeout\` must be 1 to ${inactivitySeconds.max} seconds.`);
  return {
    format,
    language,
    isAuto: query.get("auto_mode") === "true",
    idleMs: seconds * 1000,
    model: query.get("model_id")?.slice(0, 512) || undefined,
    voice: voiceOf(params["voice"] ?? ""),
  };
}

function voiceOf(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw invalid("bad_request", "The path of this request contains an invalid %-escape. Encode it as UTF-8.");
  }
}

const unsupported = (param: string, message: string) => invalid("invalid_value", message, { param, in: "query" });

/** `xi_api_key`, or `authorization` with the value of that header. */
function keyOf(message: string): string | undefined {
  let first: unknown;
  try {
    first = JSON.parse(message);
  } catch {
    return undefined;
  }
  const { xi_api_key: key, authorization } = (first ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof key === "string" && key !== "") return key;
  return typeof authorization === "string" ? authorization.replace(/^bearer +/i, "") || undefined : undefined;
}
