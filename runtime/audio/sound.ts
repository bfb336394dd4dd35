// Sound as this server computes with it: mono samples around -1..1 at a known rate.
export interface Sound {
  readonly samples: Float32Array;
  /** Samples per second. */
  readonly rate: number;
}

/** The sender's audio cannot be used; the message is for them. */
export class AudioRefusal extends Error {
  readonly code: "unreadable" | "too_long" | "no_decoder";
  constructor(code: AudioRefusal["code"], message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = "AudioRefusal";
    this.code = code;
  }
}
