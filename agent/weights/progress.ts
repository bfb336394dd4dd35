/** Bytes; `total` is 0 while it is unknown. */
export type Progress = (done: number, total: number) => void;

const everyMs = 100;

/** Limits the rate of callbacks: one per chunk would cost more than the download. The latest figures are always reported. */
export async function withFewerCalls<T>(onProgress: Progress, work: (report: Progress) => Promise<T>): Promise<T> {
  let latest: [number, number] | undefined;
  let timer: NodeJS.Timeout | undefined;
  const report = (): void => {
    if (latest) onProgress(...latest);
    latest = undefined;
  };
  try {
    return await work((done, total) => {
      latest = [done, total];
      timer ??= setTimeout(() => {
        timer = undefined;
        report();
      }, everyMs);
    });
  } finally {
    clearTimeout(timer);
    report();
  }
}

interface Job<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  readonly listeners: Set<Progress>;
}

/**
 * Runs the same work once for all concurrent callers. A caller that aborts (signal) does not affect the others; when the last one
 * aborts, the work is aborted, and the next caller waits for its cleanup and starts it again.
 */
export function createSharedWork<T>(): (
  key: string,
  work: (onProgress: Progress, signal: AbortSignal) => Promise<T>,
  onProgress: Progress,
  signal: AbortSignal,
) => Promise<T> {
  const running = new Map<string, Job<T>>();

  return async (key, work, onProgress, signal) => {
    for (let last = running.get(key); last?.controller.signal.aborted; last = running.get(key))
      await last.promise.catch(() => {});
    signal.throwIfAborted();
    const job = running.get(key) ?? start(key, work);
    const listener: Progress = (done, total) => onProgress(done, total);
    job.listeners.add(listener);
    let leave = (): void => {};
    const left = new Promise<never>((_, reject) => {
      leave = () => {
        job.listeners.delete(listener);
        if (job.listeners.size > 0) return reject(signal.reason);
        job.controller.abort(signal.reason);
        job.promise.then(
          () => reject(signal.reason),
          () => reject(signal.reason),
        );
      };
    });
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await Promise.race([job.promise, left]);
    } finally {
      signal.removeEventListener("abort", leave);
    }
  };

  function start(key: string, work: (onProgress: Progress, signal: AbortSignal) => Promise<T>): Job<T> {
    const controller = new AbortController();
    const listeners = new Set<Progress>();
    const promise = work((done, total) => {
      for (const listener of listeners) listener(done, total);
    }, controller.signal).finally(() => running.delete(key));
    // All callers may have aborted by the time it fails.
    promise.catch(() => {});
    const job = { promise, controller, listeners };
    running.set(key, job);
    return job;
  }
}
