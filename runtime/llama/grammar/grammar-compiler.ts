// Compiles constraints in a thread that is terminated at a deadline: nothing a request sends can hold the model server's own
// thread, on which every stream and health check runs.
import { keepNewest } from "../../../proto/keep-newest.ts";
import { FairTurns } from "../../batch/fair-turns.ts";
import { currentTenant } from "../../batch/tenant.ts";
import { type Constraint, EngineRefusal } from "../../server/text-engine.ts";
import { ThreadCalls } from "../../threads/thread-calls.ts";
import type { CompiledText, CompileFunctions } from "./compile-thread.ts";
import { UnsupportedConstraint } from "./grammar-rules.ts";

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
  #thread: ThreadCalls<CompileFunctions> | undefined;

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
    await this.#thread?.close();
  }

  async #compileNow(constraint: Constraint, key: string): Promise<CompiledText> {
    const thread = this.#thread && !this.#thread.hasEnded ? this.#thread : await this.#start();
    const compiled = await within(this.#deadlineMs, thread, () => thread.call("compile", constraint));
    if (key.length <= maxKeptLength && compiled.gbnf.length <= maxKeptLength * 4)
      keepNewest(this.#kept, key, compiled, maxKept);
    return compiled;
  }

  async #start(): Promise<ThreadCalls<CompileFunctions>> {
    const thread = new ThreadCalls<CompileFunctions>(
      new URL("./compile-thread.ts", import.meta.url),
      "that compiles formats",
      ({ name, message }) =>
        name === "UnsupportedConstraint" ? new UnsupportedConstraint(message) : new Error(message),
    );
    this.#thread = thread;
    await within(startDeadlineMs, thread, () => thread.call("start"));
    return thread;
  }
}

/** Terminates the thread at the deadline. The thread keeps the process running only during the call. */
async function within<T>(ms: number, thread: ThreadCalls<CompileFunctions>, call: () => Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new UnsupportedConstraint(`reading it took longer than ${ms / 1000} s; simplify the format`));
    void thread.close();
  }, ms);
  thread.keepAlive(true);
  try {
    return await Promise.race([call(), late]);
  } finally {
    clearTimeout(timer);
    thread.keepAlive(false);
  }
}
