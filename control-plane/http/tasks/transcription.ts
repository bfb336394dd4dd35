import { type Completion, taskCompletion } from "../../inference/completion.ts";
import { noUnits } from "../../inference/task.ts";
import { audioLength } from "../audio-length.ts";
import { type FormFile, writeForm } from "../form-body.ts";

export interface TranscriptionWish {
  readonly model: string;
  readonly task: "transcribe" | "translate";
  readonly file: FormFile;
  readonly language?: string | null | undefined;
  readonly prompt?: string | null | undefined;
  readonly format: string;
  readonly temperature?: number | null | undefined;
  readonly granularities?: readonly unknown[] | null | undefined;
  /** Seconds, of native inference alone. */
  readonly chunkLength?: number | null | undefined;
}

export function transcription(wish: TranscriptionWish): Completion {
  const { likelyMs, mostMs } = audioLength(wish.file.bytes);
  const units = { asked: { ...noUnits, audioMs: likelyMs }, most: { ...noUnits, audioMs: mostMs } };
  return taskCompletion("transcription", wish.model, {
    enginePath: wish.task === "translate" ? "/v1/audio/translations" : "/v1/audio/transcriptions",
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    units: () => units,
    body: (model) =>
      writeForm([
        ["model", model],
        ["language", wish.language],
        ["prompt", wish.prompt],
        ["response_format", wish.format],
        ["temperature", wish.temperature],
        ["timestamp_granularities[]", wish.granularities],
        ["chunk_length_s", wish.chunkLength],
        ["file", wish.file],
      ]),
  });
}
