import type { Logger } from "pino";

/**
 * Aborts on SIGTERM, SIGINT and, where asked for, when the parent's pipe on stdin ends: a supervisor that was killed cannot
 * say so. A second signal ends the process at once.
 */
export function stopSignal(options: { readonly withParent: boolean; readonly log: Logger }): AbortSignal {
  const stopping = new AbortController();
  const stop = (why: string) => {
    if (stopping.signal.aborted) process.exit(130);
    options.log.info({ why }, "the control plane stops");
    stopping.abort();
  };
  process.on("SIGTERM", () => stop("SIGTERM"));
  process.on("SIGINT", () => stop("SIGINT"));
  if (options.withParent) {
    const gone = () => {
      if (!stopping.signal.aborted) stop("the parent is gone");
    };
    process.stdin.on("end", gone).on("close", gone).on("error", gone).resume();
  }
  return stopping.signal;
}
