// What goes between the server and the thread that computes with sound. Types alone.
import type { AudioRefusal, Sound } from "./sound.ts";

export type SoundQuestion =
  | { readonly id: number; readonly kind: "wav"; readonly bytes: Uint8Array; readonly rate: number }
  | { readonly id: number; readonly kind: "pitch"; readonly sound: Sound }
  /** Nobody waits for this one any more. */
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
