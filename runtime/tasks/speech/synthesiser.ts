// The port of speech onto a model that speaks: one piece of text in, sound out.
import type { Voice } from "./voice.ts";

export interface Manner {
  readonly voice: Voice;
  /** ISO 639-1. */
  readonly language: string;
  /** 1 = as the model speaks. */
  readonly speed: number;
}

export interface Synthesiser {
  /** Samples per second. */
  readonly rate: number;
  readonly presets: readonly string[];
  readonly defaultVoice: string;
  /** ISO 639-1. */
  readonly languages: readonly string[];
  /** Returns the language of a voice, for requests that name none. */
  languageOf(voice: Voice): string;
  /** Sound can be made for a mixture of presets. */
  readonly canBlend: boolean;
  /** Undefined if the text contains nothing that can be spoken. */
  speak(text: string, manner: Manner): Promise<Float32Array> | undefined;
}
