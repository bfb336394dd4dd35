// Calls from the model server to functions in a worker thread: both ends of the protocol.
import { parentPort, Worker } from "node:worker_threads";

type Functions = Readonly<Record<string, (...args: never[]) => unknown>>;

interface Call {
  /** 0: the caller awaits no reply. */
  readonly id: number;
  readonly name: string;
  readonly args: readonly unknown[];
}

/** Error of a function, without its class. */
export interface ThreadFailure {
  readonly name: string;
  readonly message: string;
  /** Its own fields that are plain values, such as `code`. */
  readonly fields: Readonly<Record<string, unknown>>;
}

type Reply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly failure: ThreadFailure };

/** Result whose buffers are transferred instead of copied. */
class Moved<Result> {
  readonly result: Result;
  readonly buffers: ArrayBuffer[];
  constructor(result: Result, buffers: ArrayBuffer[]) {
    this.result = result;
    this.buffers = buffers;
  }
}

export const moved = <Result>(result: Result, buffers: ArrayBuffer[]) => new Moved(result, buffers);

type ResultOf<F extends (...args: never[]) => unknown> =
  Awaited<ReturnType<F>> extends Moved<infer Result> ? Result : Awaited<ReturnType<F>>;

/** Call once in the thread. The functions run one at a time, in the order of the calls. */
export function serveCalls(functions: Functions): void {
  const port = parentPort;
  if (!port) throw new Error("this script runs as a worker thread");
  let turn: Promise<void> = Promise.resolve();
  const run = async ({ id, name, args }: Call) => {
    try {
      const made = await functions[name]?.(...(args as never[]));
      const [result, buffers] = made instanceof Moved ? [made.result, made.buffers] : [made, []];
      if (id !== 0) port.postMessage({ id, result } satisfies Reply, buffers);
    } catch (error) {
      if (id !== 0) port.postMessage({ id, failure: failureOf(error) } satisfies Reply);
    }
  };
  port.on("message", (call: Call) => {
    turn = turn.then(() => run(call));
  });
}

function failureOf(error: unknown): ThreadFailure {
  if (!(error instanceof Error)) return { name: "Error", message: String(error), fields: {} };
  const fields = Object.entries(error).filter(([, value]) => typeof value !== "object" && typeof value !== "function");
  return { name: error.name, message: error.message, fields: Object.fromEntries(fields) };
}

/** Starts a thread and calls its functions. All waiting and later calls fail once the thread has ended. */
export class ThreadCalls<F extends Functions> {
  readonly #thread: Worker;
  readonly #waiters = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #errorOf: (failure: ThreadFailure) => Error;
  #lastId = 0;
  #end: string | undefined;

  /** `purpose` completes "the thread …" in the error of a thread that ended. */
  constructor(
    script: URL,
    purpose: string,
    errorOf: (failure: ThreadFailure) => Error = ({ message }) => new Error(message),
    workerData?: unknown,
  ) {
    this.#errorOf = errorOf;
    this.#thread = new Worker(script, { workerData });
    this.#thread.on("message", (reply: Reply) => {
      const waiter = this.#waiters.get(reply.id);
      this.#waiters.delete(reply.id);
      if ("failure" in reply) waiter?.reject(errorOf(reply.failure));
      else waiter?.resolve(reply.result);
    });
    this.#thread.on("error", (error) => this.#ended(error instanceof Error ? error.message : String(error)));
    this.#thread.on("exit", () => this.#ended(`the thread ${purpose} has ended`));
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  call<Name extends keyof F & string>(name: Name, ...args: Parameters<F[Name]>): Promise<ResultOf<F[Name]>> {
    return this.callMoving([], name, ...args);
  }

  /** Transfers the buffers: the caller must not read them afterwards. */
  callMoving<Name extends keyof F & string>(
    buffers: ArrayBuffer[],
    name: Name,
    ...args: Parameters<F[Name]>
  ): Promise<ResultOf<F[Name]>> {
    if (this.#end !== undefined) return Promise.reject(this.#failure(this.#end));
    const waiter = Promise.withResolvers<unknown>();
    const id = ++this.#lastId;
    this.#waiters.set(id, waiter);
    this.#thread.postMessage({ id, name, args } satisfies Call, buffers);
    return waiter.promise as Promise<ResultOf<F[Name]>>;
  }

  /** Calls without a reply; does nothing once the thread has ended. */
  post<Name extends keyof F & string>(name: Name, ...args: Parameters<F[Name]>): void {
    if (!this.hasEnded) this.#thread.postMessage({ id: 0, name, args } satisfies Call);
  }

  /** Sets whether the thread keeps the process running. */
  keepAlive(isKept: boolean): void {
    if (isKept) this.#thread.ref();
    else this.#thread.unref();
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

  #failure(message: string): Error {
    return this.#errorOf({ name: "Error", message, fields: {} });
  }
}
