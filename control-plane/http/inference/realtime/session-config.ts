// Configuration of a transcription session in both forms that clients send: `session.update` of OpenAI's current interface, and
// `transcription_session.update` of the one before it.
import { type Static, Type } from "typebox";
import { nullable } from "../sampling-schemas.ts";
import { rateOf, type SoundFormat } from "./sound.ts";

export interface TurnDetection {
  readonly threshold: number;
  readonly prefix_padding_ms: number;
  readonly silence_duration_ms: number;
}

export interface SessionConfig {
  readonly format: SoundFormat;
  readonly model: string | undefined;
  readonly language: string | undefined;
  readonly prompt: string | undefined;
  /** Null: the client commits. */
  readonly turnDetection: TurnDetection | null;
}

export const defaultTurnDetection: TurnDetection = {
  threshold: 0.5,
  prefix_padding_ms: 300,
  silence_duration_ms: 500,
};

/** Configuration of a session before its first update. */
export const initialConfig: SessionConfig = {
  format: "audio/pcm",
  model: undefined,
  language: undefined,
  prompt: undefined,
  turnDetection: defaultTurnDetection,
};

const Transcription = Type.Object({
  model: Type.Optional(nullable.string({ minLength: 1, maxLength: 512 })),
  language: Type.Optional(nullable.string({ maxLength: 16 })),
  prompt: Type.Optional(nullable.string({ maxLength: 8192 })),
});

const Detection = Type.Object({
  type: Type.Optional(Type.Unsafe<string>({ type: "string", enum: ["server_vad"] })),
  threshold: Type.Optional(nullable.number({ minimum: 0, maximum: 1 })),
  prefix_padding_ms: Type.Optional(nullable.integer({ minimum: 0, maximum: 5_000 })),
  silence_duration_ms: Type.Optional(nullable.integer({ minimum: 20, maximum: 10_000 })),
});

const nullOr = <Schema extends ReturnType<typeof Type.Object>>(schema: Schema) =>
  Type.Unsafe<Static<Schema> | null>({ ...schema, type: ["object", "null"] });

const formats = ["audio/pcm", "audio/pcmu", "audio/pcma"] as const;
const formerFormats: Readonly<Record<string, SoundFormat>> = {
  pcm16: "audio/pcm",
  g711_ulaw: "audio/pcmu",
  g711_alaw: "audio/pcma",
};

/** `session` of `session.update`. */
export const SessionUpdate = Type.Object({
  session: Type.Object({
    type: Type.Unsafe<string>({ type: "string", enum: ["transcription"] }),
    audio: Type.Optional(
      Type.Object({
        input: Type.Optional(
          Type.Object({
            format: Type.Optional(
              Type.Object({
                type: Type.Optional(Type.Unsafe<SoundFormat>({ type: "string", enum: [...formats] })),
                rate: Type.Optional(nullable.integer({ enum: [24_000, 8_000, null] })),
              }),
            ),
            transcription: Type.Optional(nullOr(Transcription)),
            turn_detection: Type.Optional(nullOr(Detection)),
          }),
        ),
      }),
    ),
  }),
});
type SessionUpdate = Static<typeof SessionUpdate>;

/** `session` of `transcription_session.update`. */
export const FormerSessionUpdate = Type.Object({
  session: Type.Object({
    input_audio_format: Type.Optional(Type.Unsafe<string>({ type: "string", enum: Object.keys(formerFormats) })),
    input_audio_transcription: Type.Optional(nullOr(Transcription)),
    turn_detection: Type.Optional(nullOr(Detection)),
  }),
});
type FormerSessionUpdate = Static<typeof FormerSessionUpdate>;

/** Fields that the update leaves out stay as they are. */
export function updated(config: SessionConfig, { session }: SessionUpdate): SessionConfig {
  const input = session.audio?.input;
  return changed(config, input?.format?.type, input?.transcription, input?.turn_detection);
}

export function formerUpdated(config: SessionConfig, { session }: FormerSessionUpdate): SessionConfig {
  const format = session.input_audio_format === undefined ? undefined : formerFormats[session.input_audio_format];
  return changed(config, format, session.input_audio_transcription, session.turn_detection);
}

function changed(
  config: SessionConfig,
  format: SoundFormat | undefined,
  transcription: Static<typeof Transcription> | null | undefined,
  detection: Static<typeof Detection> | null | undefined,
): SessionConfig {
  const { threshold, prefix_padding_ms: prefix, silence_duration_ms: silence } = detection ?? {};
  const before = config.turnDetection ?? defaultTurnDetection;
  return {
    format: format ?? config.format,
    model: transcription?.model ?? config.model,
    language: transcription ? (transcription.language ?? undefined) : config.language,
    prompt: transcription ? (transcription.prompt ?? undefined) : config.prompt,
    turnDetection:
      detection === undefined
        ? config.turnDetection
        : detection && {
            threshold: threshold ?? before.threshold,
            prefix_padding_ms: prefix ?? before.prefix_padding_ms,
            silence_duration_ms: silence ?? before.silence_duration_ms,
          },
  };
}

const transcriptionOf = ({ model, language, prompt }: SessionConfig) =>
  model === undefined ? null : { model, language: language ?? null, prompt: prompt ?? "" };

const detectionOf = ({ turnDetection }: SessionConfig) => turnDetection && { type: "server_vad", ...turnDetection };

export function renderConfig(id: string, config: SessionConfig): object {
  const { format } = config;
  return {
    type: "transcription",
    object: "realtime.transcription_session",
    id,
    audio: {
      input: {
        format: format === "audio/pcm" ? { type: format, rate: rateOf(format) } : { type: format },
        transcription: transcriptionOf(config),
        noise_reduction: null,
        turn_detection: detectionOf(config),
      },
    },
    include: null,
  };
}

export function renderFormerConfig(id: string, config: SessionConfig): object {
  const format = Object.entries(formerFormats).find(([, now]) => now === config.format)?.[0];
  return {
    id,
    object: "realtime.transcription_session",
    input_audio_format: format,
    input_audio_transcription: transcriptionOf(config),
    input_audio_noise_reduction: null,
    turn_detection: detectionOf(config),
  };
}
