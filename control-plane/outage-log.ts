// During an outage of the database every request and loop fails and would fill the disk with log lines.

import type { LoggerOptions } from "pino";
import { DatabaseUnavailable } from "./service-error.ts";

const everyMs = 1_000;
const maxKinds = 1_000;

/**
 * Hooks for pino: writes at most one line per second of each kind (same message) whose `err` is a database outage. The next line
 * of the kind has the number of suppressed lines as `repeated`.
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
