// Asks the thread that computes with sound. It starts with the first question and ends with the process.
import { Worker } from "node:worker_threads";
import { Recording } from "./recording.ts";
import { AudioRefusal, type Sound } from "./sound.ts";
import type { SoundAnswer, SoundQuestion } from "./sound-messages.ts";

type WithoutId<Q> = Q extends { readonly id: number } ? Omit<Q, "id"> : never;

interface Waiter {
  readonly onPcm: (bytes: Uint8Array) => void;
  readonly resolve: (answer: SoundAnswer) => void;
  readonly reject: (error: Error) => void;
}

export class SoundWorker {
  readonly #waiters = new Map<number, Waiter>();
  #thread: Worker | undefined;
  #lastId = 0;

  /** `bytes` are handed over: nobody else may read them afterwards. Throws AudioRefusal; the signal's reason on abort. */
  async recordingOfWav(bytes: Buffer, rate: number, signal: AbortSignal): Promise<Recording> {
    const recording = new Recording(rate);
    const isWhole = bytes.byteLength === bytes.buffer.byteLength && bytes.buffer instanceof ArrayBuffer;
    const own = isWhole ? bytes : new Uint8Array(bytes);
    const question = { kind: "wav", bytes: own, rate } as const;
    await this.#ask(question, [own.buffer as ArrayBuffer], (pcm) => recording.append(pcm), signal);
    return recording;
  }

  /** Undefined where nobody speaks. */
  async medianPitchHz(sound: Sound, signal: AbortSignal): Promise<number | undefined> {
    const answer = await this.#ask({ kind: "pitch", sound }, [], () => {}, signal);
    return answer.kind === "pitched" ? answer.hz : undefined;
  }

  async #ask(
    question: WithoutId<SoundQuestion>,
    transfer: ArrayBuffer[],
    onPcm: Waiter["onPcm"],
    signal: AbortSignal,
  ): Promise<SoundAnswer> {
    signal.throwIfAborted();
    this.#lastId += 1;
    const id = this.#lastId;
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
        this.#waiters.set(id, { onPcm, resolve, reject });
        thread.postMessage({ ...question, id } as SoundQuestion, transfer);
      });
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  #started(): Worker {
    if (this.#thread) return this.#thread;
    const thread = new Worker(new URL("./sound-thread.ts", import.meta.url), { execArgv: process.execArgv });
    thread.unref();
    thread.on("message", (answer: SoundAnswer) => this.#heard(answer));
    thread.on("error", (error) => this.#ended(thread, error instanceof Error ? error.message : String(error)));
    thread.on("exit", () => this.#ended(thread, "the thread that computes with sound has ended"));
    this.#thread = thread;
    return thread;
  }

  #heard(answer: SoundAnswer): void {
    const waiter = this.#waiters.get(answer.id);
    if (answer.kind !== "pcm") this.#waiters.delete(answer.id);
    if (answer.kind === "pcm") waiter?.onPcm(answer.bytes);
    else if (answer.kind !== "failed") waiter?.resolve(answer);
    else waiter?.reject(answer.code ? new AudioRefusal(answer.code, answer.message) : new Error(answer.message));
  }

  /** The next question starts another. One that breaks says so twice: its successor may have waiters by then. */
  #ended(thread: Worker, why: string): void {
    if (this.#thread !== thread) return;
    this.#thread = undefined;
    for (const { reject } of this.#waiters.values()) reject(new Error(why));
    this.#waiters.clear();
  }
}
