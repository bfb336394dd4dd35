// While the database has an outage every request and every loop fails, and would fill the log's disk as well.

import type { LoggerOptions } from "pino";
import { DatabaseUnavailable } from "./service-error.ts";

const everyMs = 1_000;
const maxKinds = 1_000;

/**
 * Hooks for pino: of the lines of one kind (same message) whose `err` is a database outage at most one a second is written.
 * The next line of the kind carries the number of those that were left out as `repeated`.
 */
export function limitOutageLines(
  monotonicMs: () => number = () => performance.now(),
): NonNullable<LoggerOptions["hooks"]> {
  const kinds = new Map<string, { writtenMs: number; repeated: number }>();
  return {
    logMethod(args, method) {
      const [fields, message] = args as unknown as [unknown, unknown];
      if (!isOutage(fields)) return method.apply(this, args);
      const kind = String(message);
      const nowMs = monotonicMs();
      const last = kinds.get(kind);
      if (last && nowMs - last.writtenMs < everyMs) {
        last.repeated += 1;
        return;
      }
      if (kinds.size >= maxKinds) kinds.clear();
      kinds.set(kind, { writtenMs: nowMs, repeated: 0 });
      if (!last?.repeated) return method.apply(this, args);
      return method.call(this, { ...fields, repeated: last.repeated }, kind);
    },
  };
}

function isOutage(fields: unknown): fields is object {
  return ((fields ?? {}) as { err?: unknown }).err instanceof DatabaseUnavailable;
}
