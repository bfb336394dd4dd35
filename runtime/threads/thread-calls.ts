// Worker threads of the model server: one that replies to many calls, and one that does a single piece of work.
import { Worker, type WorkerOptions } from "node:worker_threads";

interface Reply {
  readonly id: number;
}

/** Calls to one thread. Replies carry the id of their call. All waiting and later calls fail once the thread has ended. */
export class ThreadCalls<Answer extends Reply> {
  readonly #thread: Worker;
  readonly #waiters = new Map<number, PromiseWithResolvers<Answer>>();
  readonly #failure: (message: string) => Error;
  #lastId = 0;
  #end: string | undefined;

  constructor(
    script: URL,
    options: {
      /** Completes "the thread …" in the error of a thread that ended. */
      readonly purpose: string;
      readonly workerData?: unknown;
      /** Error of a reply that reports a failure; undefined for any other reply. */
      readonly errorOf: (answer: Answer) => Error | undefined;
      /** Error of a thread that ended. */
      readonly failure?: (message: string) => Error;
    },
  ) {
    const { purpose, workerData, errorOf, failure = (message) => new Error(message) } = options;
    this.#failure = failure;
    this.#thread = newThread(script, { workerData });
    this.#thread.on("message", (answer: Answer) => {
      const waiter = this.#waiters.get(answer.id);
      this.#waiters.delete(answer.id);
      const error = errorOf(answer);
      if (error) waiter?.reject(error);
      else waiter?.resolve(answer);
    });
    this.#thread.on("error", (error) => this.#ended(error instanceof Error ? error.message : String(error)));
    this.#thread.on("exit", () => this.#ended(`the thread ${purpose} has ended`));
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  /** Sends a question and resolves with its reply. */
  ask(question: object): Promise<Answer> {
    this.#lastId += 1;
    const answer = this.awaitReply(this.#lastId);
    if (!this.hasEnded) this.post({ ...question, id: this.#lastId });
    return answer;
  }

  /** Resolves with the reply of this id. */
  awaitReply(id: number): Promise<Answer> {
    if (this.#end !== undefined) return Promise.reject(this.#failure(this.#end));
    const waiter = Promise.withResolvers<Answer>();
    this.#waiters.set(id, waiter);
    return waiter.promise;
  }

  /** Sends a message without a reply. */
  post(message: object): void {
    this.#thread.postMessage(message);
  }

  async close(): Promise<void> {
    this.#ended("the model server is stopping");
    await this.#thread.terminate();
  }

  #ended(why: string): void {
    this.#end ??= why;
    for (const { reject } of this.#waiters.values()) reject(this.#failure(why));
    this.#waiters.clear();
  }
}

/** Runs a script with `workerData` in a thread of its own and returns its only message. */
export function runInThread<Result>(script: URL, workerData: unknown, purpose: string): Promise<Result> {
  const thread = newThread(script, { workerData });
  return new Promise<Result>((resolve, reject) => {
    thread.once("message", resolve);
    thread.once("error", reject);
    thread.once("exit", () => reject(new Error(`the thread ${purpose} ended before it was done`)));
  });
}

const newThread = (script: URL, options: WorkerOptions) =>
  new Worker(script, { execArgv: process.execArgv, ...options });
