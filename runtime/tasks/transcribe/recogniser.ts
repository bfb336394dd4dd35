// Port of transcription onto a recogniser: a window of sound in, tokens out. Implemented by onnx/whisper.ts.
export interface HearingAsk {
  /** ISO 639-1; undefined for a model of one language. */
  readonly language: string | undefined;
  readonly translates: boolean;
  /** Tokens of text that precedes the window. */
  readonly prompt: readonly number[];
  /** 0 = greedy. */
  readonly temperature: number;
  readonly wantsWords: boolean;
}

export interface Heard {
  /** Text and timestamp tokens, without the prompt and the end mark. */
  readonly tokens: readonly number[];
  /** Start of each token, in seconds of the window, if words were requested. */
  readonly starts: readonly number[] | undefined;
}

export interface Recogniser {
  readonly rate: number;
  readonly windowSeconds: number;
  /** ISO 639-1; a model of one language has one. */
  readonly languages: readonly string[];
  readonly canTranslate: boolean;
  readonly hasWordTimes: boolean;
  /** The token of second 0; each further one is `tokenSeconds` later. Undefined: the model writes no timestamps. */
  readonly timestampBegin: number;
  readonly tokenSeconds: number;
  readonly maxPromptTokens: number;
  tokenize(text: string): readonly number[];
  textOf(tokens: readonly number[]): string;
  detectLanguage(window: Float32Array, signal: AbortSignal): Promise<string>;
  /** Throws the signal's reason when it aborts. */
  hear(window: Float32Array, ask: HearingAsk, signal: AbortSignal): Promise<Heard>;
  close(): Promise<void>;
}
