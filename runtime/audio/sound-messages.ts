// Messages between the server and its sound thread. Only types.
import type { AudioRefusal, Sound } from "./sound.ts";

export type SoundQuestion =
  | { readonly id: number; readonly kind: "wav"; readonly bytes: Uint8Array; readonly rate: number }
  /** The next samples of that file, which come one piece for each such question. */
  | { readonly id: number; readonly kind: "more" }
  | { readonly id: number; readonly kind: "pitch"; readonly sound: Sound }
  /** The result is no longer needed. */
  | { readonly id: number; readonly kind: "leave" };

export type SoundAnswer =
  | { readonly id: number; readonly kind: "pcm"; readonly bytes: Uint8Array }
  | { readonly id: number; readonly kind: "end" }
  | { readonly id: number; readonly kind: "pitched"; readonly hz: number | undefined }
  | {
      readonly id: number;
      readonly kind: "failed";
      /** Undefined: no fault of the sender. */
      readonly code: AudioRefusal["code"] | undefined;
      readonly message: string;
    };
