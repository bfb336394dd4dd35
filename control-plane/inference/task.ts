// A request of a task other than text: its body for an engine, and its size.
import type { UnitCounts, UnitRates } from "../../proto/money.ts";
import { noUnits } from "../../proto/usage.ts";

export type TaskKind =
  | "embeddings"
  | "rerank"
  | "transcription"
  | "text_to_speech"
  | "image_generation"
  /** Length of a prompt, free of charge. */
  | "token_count"
  /** All other tasks of our own runtime. */
  | "inference";

export interface Task {
  /** Path at the engine, e.g. `/v1/audio/speech`. */
  readonly enginePath: string;
  /** Upper bound of prompt tokens, covered by the hold. */
  readonly inputTokensBound: number;
  readonly inputTokensEstimate: number;
  /** Depends on the model's prices: an image without steps counts with those of the price. */
  readonly units: (rates: UnitRates | undefined) => TaskUnits;
  /** `servedName`: name of the model at the engine. */
  readonly body: (servedName: string) => TaskBody;
}

export interface TaskUnits {
  /** Billed if the engine reports no figures. */
  readonly asked: UnitCounts;
  /** Upper bound, covered by the hold. */
  readonly most: UnitCounts;
}

export interface TaskBody {
  readonly contentType: string;
  readonly bytes: Buffer;
}

export const exactly = (units: Partial<UnitCounts>): TaskUnits => {
  const asked = { ...noUnits, ...units };
  return { asked, most: asked };
};
