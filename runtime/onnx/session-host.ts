// Asks the thread that holds the sessions. One thread per model server: its sessions share the granted cores.
import { Worker } from "node:worker_threads";
import { FairTurns } from "../batch/fair-turns.ts";
import { type Feeds, type Session, SessionError, type TensorRef } from "./session.ts";
import type { Answer, Opened, OpenOptions, Question } from "./session-messages.ts";

type WithoutId<Q> = Q extends { readonly id: number } ? Omit<Q, "id"> : never;

interface Waiter {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: SessionError) => void;
}

export class SessionHost {
  readonly #thread = new Worker(new URL("./session-thread.ts", import.meta.url), { execArgv: process.execArgv });
  readonly #waiters = new Map<number, Waiter>();
  /** One runs and one is ready behind it; the others wait here, where tenants take turns. */
  readonly #turns = new FairTurns(2);
  #lastId = 0;
  #end: string | undefined;

  constructor() {
    this.#thread.on("message", (answer: Answer) => {
      const waiter = this.#waiters.get(answer.id);
      this.#waiters.delete(answer.id);
      if ("failure" in answer) waiter?.reject(new SessionError(answer.failure));
      else waiter?.resolve(answer);
    });
    this.#thread.on("error", (error) => this.#ended(error instanceof Error ? error.message : String(error)));
    this.#thread.on("exit", () => this.#ended("the thread of the graphs has ended"));
  }

  /** Throws SessionError. */
  async open(options: OpenOptions): Promise<{ readonly session: Session; readonly refused: readonly string[] }> {
    const answer = await this.#ask({ kind: "open", options });
    const { opened } = answer as Extract<Answer, { opened: Opened }>;
    const ask = async (feeds: Feeds, outputs: readonly string[], keep: readonly string[]) => {
      const question = { kind: "run", session: opened.session, feeds, outputs, keep } as const;
      const found = await this.#turns.run(() => this.#ask(question));
      return found as Extract<Answer, { kept: unknown }>;
    };
    const session: Session = {
      inputs: opened.inputs,
      outputs: opened.outputs,
      provider: opened.provider,
      run: async (feeds, outputs = []) => (await ask(feeds, outputs, [])).outputs,
      runKept: async (feeds, keep) => {
        const names = opened.outputs.map(({ name }) => name).filter(keep);
        const { outputs: given, kept } = await ask(feeds, [], names);
        return { given, kept };
      },
      release: (refs) => this.#release(refs),
      close: () => {
        if (this.#end === undefined)
          this.#thread.postMessage({ kind: "close", session: opened.session } satisfies Question);
      },
    };
    return { session, refused: opened.refused };
  }

  async close(): Promise<void> {
    this.#ended("the model server is stopping");
    await this.#thread.terminate();
  }

  #ask(question: WithoutId<Question>): Promise<Answer> {
    if (this.#end !== undefined) return Promise.reject(new SessionError(this.#end));
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiters.set(id, { resolve, reject });
      this.#thread.postMessage({ ...question, id } as Question);
    });
  }

  #release(refs: readonly TensorRef[]): void {
    if (this.#end !== undefined || refs.length === 0) return;
    this.#thread.postMessage({ kind: "release", refs: refs.map(({ ref }) => ref) } satisfies Question);
  }

  #ended(why: string): void {
    this.#end ??= why;
    for (const { reject } of this.#waiters.values()) reject(new SessionError(why));
    this.#waiters.clear();
  }
}
