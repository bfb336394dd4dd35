// What a request of a task other than text brings to the spine: its body for an engine, and how much it may be.
import type { UnitCounts, UnitRates } from "../../proto/money.ts";

export type TaskKind =
  | "embeddings"
  | "rerank"
  | "transcription"
  | "text_to_speech"
  | "image_generation"
  /** Every other task of our own runtime. */
  | "inference";

export interface Task {
  /** As engines know it, e.g. `/v1/audio/speech`. */
  readonly enginePath: string;
  /** Upper bound of prompt tokens, as the hold covers them. */
  readonly inputTokensBound: number;
  readonly inputTokensEstimate: number;
  /** By the model's prices: an image's size counts in the steps that its price is of. */
  readonly units: (rates: UnitRates | undefined) => TaskUnits;
  /** `servedName`: what the engine knows the model by. */
  readonly body: (servedName: string) => TaskBody;
}

export interface TaskUnits {
  /** Billed where neither the engine nor its answer says how much it was. */
  readonly asked: UnitCounts;
  /** What the hold covers. */
  readonly most: UnitCounts;
}

export interface TaskBody {
  readonly contentType: string;
  readonly bytes: Buffer;
}

export const noUnits: UnitCounts = { characters: 0, audioMs: 0, images: 0, imagePixelSteps: 0, items: 0 };

export const exactly = (units: Partial<UnitCounts>): TaskUnits => {
  const asked = { ...noUnits, ...units };
  return { asked, most: asked };
};
