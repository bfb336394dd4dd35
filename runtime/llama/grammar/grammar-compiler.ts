// Compiles constraints in a thread that is terminated at a deadline: nothing a request sends can hold the model server's own
// thread, on which every stream and health check runs.
import { Worker } from "node:worker_threads";
import { keepNewest } from "../../../proto/keep-newest.ts";
import { FairTurns } from "../../batch/fair-turns.ts";
import { currentTenant } from "../../batch/tenant.ts";
import { type Constraint, EngineRefusal } from "../../server/text-engine.ts";
import type { ParsedGrammar } from "./gbnf-rules.ts";
import { UnsupportedConstraint } from "./grammar-rules.ts";

export interface CompiledText {
  readonly gbnf: string;
  readonly parsed: ParsedGrammar;
}

/** Reply of the thread. */
export type Compilation = CompiledText | { readonly refusal: string };

interface Running {
  readonly resolve: (compiled: CompiledText) => void;
  readonly reject: (error: Error) => void;
}

const defaultDeadlineMs = 3_000;
/** Time for the thread to load its modules on a busy machine. */
const startDeadlineMs = 60_000;
/** Formats that wait, of all tenants and of one. */
const [maxWaiting, maxWaitingOfTenant] = [64, 16];
/** Compiled formats kept for later requests, and the length of a format that is kept. */
const [maxKept, maxKeptLength] = [32, 20_000];

export class GrammarCompiler {
  readonly #deadlineMs: number;
  readonly #kept = new Map<string, CompiledText>();
  /** The thread compiles one format at a time. */
  readonly #turns = new FairTurns();
  /** Formats in progress or waiting, by tenant. */
  readonly #counts = new Map<string, number>();
  #current: Running | undefined;
  #thread: Worker | undefined;
  #isReady = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(deadlineMs = defaultDeadlineMs) {
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Compiles in turns by tenant. Throws UnsupportedConstraint, EngineRefusal("busy") when too many wait, and the reason of
   * `signal` when it aborts before the turn.
   */
  async compile(constraint: Constraint, signal: AbortSignal): Promise<CompiledText> {
    const key = JSON.stringify(constraint, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
    const kept = this.#kept.get(key);
    if (kept) return kept;
    const tenant = currentTenant();
    const count = this.#counts.get(tenant) ?? 0;
    if (this.#turns.waiting >= maxWaiting || count > maxWaitingOfTenant)
      throw new EngineRefusal("busy", "too many requests wait for their format to be compiled; try again");
    this.#counts.set(tenant, count + 1);
    try {
      // Another request may have compiled the same format in the meantime.
      return await this.#turns.run(
        async () => this.#kept.get(key) ?? (await this.#compileNow(constraint, key)),
        signal,
      );
    } finally {
      const left = (this.#counts.get(tenant) ?? 1) - 1;
      if (left > 0) this.#counts.set(tenant, left);
      else this.#counts.delete(tenant);
    }
  }

  async close(): Promise<void> {
    await this.#thread?.terminate();
  }

  async #compileNow(constraint: Constraint, key: string): Promise<CompiledText> {
    const compiled = await new Promise<CompiledText>((resolve, reject) => {
      this.#current = { resolve, reject };
      const thread = this.#thread ?? this.#start();
      thread.ref();
      this.#setDeadline(this.#isReady ? this.#deadlineMs : startDeadlineMs);
      thread.postMessage(constraint);
    });
    if (key.length <= maxKeptLength && compiled.gbnf.length <= maxKeptLength * 4)
      keepNewest(this.#kept, key, compiled, maxKept);
    return compiled;
  }

  #start(): Worker {
    const thread = new Worker(new URL("./compile-thread.ts", import.meta.url), { execArgv: process.execArgv });
    this.#thread = thread;
    this.#isReady = false;
    thread.on("message", (message: Compilation | "ready") => {
      if (thread !== this.#thread) return;
      if (message === "ready") {
        this.#isReady = true;
        if (this.#current) this.#setDeadline(this.#deadlineMs);
      } else if ("refusal" in message)
        this.#end((running) => running.reject(new UnsupportedConstraint(message.refusal)));
      else this.#end((running) => running.resolve(message));
    });
    const fail = (error: Error) => {
      if (thread !== this.#thread) return;
      this.#thread = undefined;
      this.#end((running) => running.reject(error));
    };
    thread.on("error", fail);
    thread.on("exit", () => fail(new Error("the thread that compiles formats ended")));
    return thread;
  }

  #setDeadline(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const thread = this.#thread;
      this.#thread = undefined;
      void thread?.terminate();
      const words = `reading it took longer than ${ms / 1000} s; simplify the format`;
      this.#end((running) => running.reject(new UnsupportedConstraint(words)));
    }, ms);
  }

  #end(settle: (running: Running) => void): void {
    clearTimeout(this.#timer);
    const current = this.#current;
    this.#current = undefined;
    this.#thread?.unref();
    if (current) settle(current);
  }
}
