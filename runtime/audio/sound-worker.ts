// Client of the sound thread, which starts with the first question and ends with the process.
import { Worker } from "node:worker_threads";
import type { PcmSource } from "./recording.ts";
import { AudioRefusal, type Sound } from "./sound.ts";
import type { SoundAnswer, SoundQuestion } from "./sound-messages.ts";

interface Waiter {
  readonly resolve: (answer: SoundAnswer) => void;
  readonly reject: (error: Error) => void;
}

export class SoundWorker {
  readonly #waiters = new Map<number, Waiter>();
  #thread: Worker | undefined;
  #lastId = 0;

  /** `bytes` are transferred with the first piece: the caller must not read them afterwards. Its `next` throws AudioRefusal. */
  pcmOfWav(bytes: Buffer, rate: number, signal: AbortSignal): PcmSource {
    this.#lastId += 1;
    const id = this.#lastId;
    let hasStarted = false;
    let hasEnded = false;
    const close = () => {
      if (hasStarted && !hasEnded) this.#thread?.postMessage({ id, kind: "leave" } satisfies SoundQuestion);
      hasEnded = true;
    };
    const next = async () => {
      if (hasEnded) return undefined;
      const isWhole = bytes.byteLength === bytes.buffer.byteLength && bytes.buffer instanceof ArrayBuffer;
      const own = hasStarted || isWhole ? bytes : new Uint8Array(bytes);
      const question: SoundQuestion = hasStarted ? { id, kind: "more" } : { id, kind: "wav", bytes: own, rate };
      const transfer = hasStarted ? [] : [own.buffer as ArrayBuffer];
      hasStarted = true;
      const answer = await this.#ask(question, transfer, signal);
      if (answer.kind === "pcm") return answer.bytes;
      hasEnded = true;
      return undefined;
    };
    return { next, close };
  }

  /** Undefined without speech. */
  async medianPitchHz(sound: Sound, signal: AbortSignal): Promise<number | undefined> {
    this.#lastId += 1;
    const answer = await this.#ask({ id: this.#lastId, kind: "pitch", sound }, [], signal);
    return answer.kind === "pitched" ? answer.hz : undefined;
  }

  async #ask(question: SoundQuestion, transfer: ArrayBuffer[], signal: AbortSignal): Promise<SoundAnswer> {
    signal.throwIfAborted();
    const { id } = question;
    const thread = this.#started();
    const leave = () => {
      const waiter = this.#waiters.get(id);
      this.#waiters.delete(id);
      thread.postMessage({ id, kind: "leave" } satisfies SoundQuestion);
      waiter?.reject(signal.reason as Error);
    };
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await new Promise<SoundAnswer>((resolve, reject) => {
        this.#waiters.set(id, { resolve, reject });
        thread.postMessage(question, transfer);
      });
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  #started(): Worker {
    if (this.#thread) return this.#thread;
    const thread = new Worker(new URL("./sound-thread.ts", import.meta.url), { execArgv: process.execArgv });
    thread.unref();
    thread.on("message", (answer: SoundAnswer) => this.#settle(answer));
    thread.on("error", (error) => this.#ended(thread, error instanceof Error ? error.message : String(error)));
    thread.on("exit", () => this.#ended(thread, "the thread that computes with sound has ended"));
    this.#thread = thread;
    return thread;
  }

  #settle(answer: SoundAnswer): void {
    const waiter = this.#waiters.get(answer.id);
    this.#waiters.delete(answer.id);
    if (answer.kind !== "failed") waiter?.resolve(answer);
    else waiter?.reject(answer.code ? new AudioRefusal(answer.code, answer.message) : new Error(answer.message));
  }

  /** The next question starts a new thread. A failed thread emits two events: its successor may have waiters by then. */
  #ended(thread: Worker, why: string): void {
    if (this.#thread !== thread) return;
    this.#thread = undefined;
    for (const { reject } of this.#waiters.values()) reject(new Error(why));
    this.#waiters.clear();
  }
}
