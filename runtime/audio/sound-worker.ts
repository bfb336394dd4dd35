// Client of the sound thread, which starts with the first request and ends with the process.
import { ThreadCalls } from "../threads/thread-calls.ts";
import type { PcmSource } from "./recording.ts";
import { AudioRefusal, type Sound } from "./sound.ts";
import type { SoundFunctions } from "./sound-thread.ts";

export class SoundWorker {
  #thread: ThreadCalls<SoundFunctions> | undefined;
  #lastId = 0;

  /** `bytes` are transferred with the first piece: the caller must not read them afterwards. Its `next` throws AudioRefusal. */
  pcmOfWav(bytes: Buffer, rate: number, signal: AbortSignal): PcmSource {
    this.#lastId += 1;
    const id = this.#lastId;
    let thread: ThreadCalls<SoundFunctions> | undefined;
    let hasEnded = false;
    const close = () => {
      if (!hasEnded) thread?.post("leave", id);
      hasEnded = true;
    };
    const first = () => {
      const isWhole = bytes.byteLength === bytes.buffer.byteLength && bytes.buffer instanceof ArrayBuffer;
      const own = isWhole ? bytes : new Uint8Array(bytes);
      thread = this.#started();
      return thread.callMoving([own.buffer as ArrayBuffer], "wav", id, own, rate);
    };
    const next = async () => {
      if (hasEnded) return undefined;
      signal.throwIfAborted();
      const piece = await untilAborted(thread ? thread.call("more", id) : first(), signal, close);
      hasEnded ||= piece === undefined;
      return piece;
    };
    return { next, close };
  }

  /** Undefined without speech. */
  async medianPitchHz(sound: Sound, signal: AbortSignal): Promise<number | undefined> {
    signal.throwIfAborted();
    return untilAborted(this.#started().call("pitch", sound), signal, () => {});
  }

  /** Starts a new thread if the last one failed. */
  #started(): ThreadCalls<SoundFunctions> {
    if (this.#thread && !this.#thread.hasEnded) return this.#thread;
    this.#thread = new ThreadCalls<SoundFunctions>(
      new URL("./sound-thread.ts", import.meta.url),
      "that computes with sound",
      ({ name, message, fields }) =>
        name === "AudioRefusal"
          ? new AudioRefusal(fields["code"] as AudioRefusal["code"], message)
          : new Error(message),
    );
    this.#thread.keepAlive(false);
    return this.#thread;
  }
}

/** Rejects with the signal's reason as soon as it aborts. */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal, onAbort: () => void): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => {
    onAbort();
    reject(signal.reason);
  };
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
