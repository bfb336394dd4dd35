// The port of the tasks onto a loaded ONNX graph. Implemented by session-thread.ts in a thread of its own: the native call
// blocks its thread, and the server must continue to reply.
type TensorData = Exclude<NodeJS.TypedArray, Uint8ClampedArray | Float16Array>;

export interface TensorValue {
  /** ONNX's name: `float32`, `int64`, `bool`, ... */
  readonly type: string;
  readonly data: TensorData;
  readonly dims: readonly number[];
}

/** A tensor that stays with the graph: what one step gives to the next is never copied. */
export interface TensorRef {
  readonly ref: number;
  readonly type: string;
  readonly dims: readonly number[];
}

export interface IoInfo {
  readonly name: string;
  readonly type: string;
  /** A name is a length that differs from run to run. */
  readonly shape: readonly (number | string)[];
}

export type Feeds = Readonly<Record<string, TensorValue | TensorRef>>;

export interface Session {
  readonly inputs: readonly IoInfo[];
  readonly outputs: readonly IoInfo[];
  /** The execution provider that runs it: `cpu`, `cuda`, ... */
  readonly provider: string;
  /** Runs are taken in order. Throws SessionError. `outputs`: only these; all by default. */
  run(feeds: Feeds, outputs?: readonly string[]): Promise<Record<string, TensorValue>>;
  /** As `run`, with outputs that stay where they are, to be fed again and freed with `release`. */
  runKept(
    feeds: Feeds,
    keep: (name: string) => boolean,
  ): Promise<{ readonly given: Record<string, TensorValue>; readonly kept: Record<string, TensorRef> }>;
  release(refs: readonly TensorRef[]): void;
  /** Releases its memory after the pending runs. */
  close(): void;
}

export class SessionError extends Error {}

const memoryWords = /bad_alloc|out of memory|failed to allocate|alloc(ation|ate).*fail|CUDA_ERROR_OUT|CUBLAS.*ALLOC/i;

/** Returns true if fewer items at once may run. */
export const isMemoryFailure = (error: unknown) => error instanceof SessionError && memoryWords.test(error.message);
