import { noUnits } from "../../../../proto/usage.ts";
import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { type FormFile, writeForm } from "../../body/form-body.ts";
import { audioLength } from "../audio-length.ts";

export interface TranscriptionParams {
  readonly model: string;
  readonly task: "transcribe" | "translate";
  readonly file: FormFile;
  readonly language?: string | null | undefined;
  readonly prompt?: string | null | undefined;
  readonly format: string;
  /** The engine sends events, as it transcribes. */
  readonly stream?: boolean;
  readonly temperature?: number | null | undefined;
  readonly granularities?: readonly unknown[] | null | undefined;
  /** Seconds; only for native inference. */
  readonly chunkLength?: number | null | undefined;
}

export function transcription(request: TranscriptionParams): Completion {
  const { likelyMs, maxMs } = audioLength(request.file.bytes);
  const units = { asked: { ...noUnits, audioMs: likelyMs }, most: { ...noUnits, audioMs: maxMs } };
  const completion = taskCompletion("transcription", request.model, {
    enginePath: request.task === "translate" ? "/v1/audio/translations" : "/v1/audio/transcriptions",
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    units: () => units,
    body: (model) =>
      writeForm([
        ["model", model],
        ["language", request.language],
        ["prompt", request.prompt],
        ["response_format", request.format],
        ["temperature", request.temperature],
        ["timestamp_granularities[]", request.granularities],
        ["chunk_length_s", request.chunkLength],
        ["stream", request.stream === true ? "true" : undefined],
        ["file", request.file],
      ]),
  });
  return request.stream === true ? { ...completion, stream: true } : completion;
}
