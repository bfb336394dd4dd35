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
