// Messages between the server and the speech recognition thread. Only types.
import type { HearingAsk } from "../tasks/transcribe/recogniser.ts";

export interface WhisperOptions {
  /** Folder that holds the model's folder, and that folder's name: as transformers.js finds local models. */
  readonly home: string;
  readonly name: string;
  readonly threads: number;
  readonly device: "cpu" | "cuda";
}

export type WhisperQuestion =
  | { readonly id: number; readonly kind: "open"; readonly options: WhisperOptions }
  | { readonly id: number; readonly kind: "detect"; readonly window: Float32Array }
  | {
      readonly id: number;
      readonly kind: "hear";
      readonly window: Float32Array;
      readonly ask: HearingAsk;
      /** One shared number: not 0 once the result is no longer needed. A message would be read only after the last step. */
      readonly stop: Int32Array;
    };

export type WhisperAnswer =
  | { readonly id: number; readonly kind: "opened"; readonly hasWordTimes: boolean }
  | { readonly id: number; readonly kind: "detected"; readonly language: string }
  | {
      readonly id: number;
      readonly kind: "heard";
      readonly tokens: readonly number[];
      readonly starts: readonly number[] | undefined;
    }
  | { readonly id: number; readonly kind: "failed"; readonly message: string };
