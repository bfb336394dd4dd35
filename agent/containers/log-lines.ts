import { redact } from "../../proto/redact.ts";
import type { LogLine, LogRange } from "../reconcile/driver.ts";

const maxLineChars = 8192;

/** Lines in their order, each after its timestamp and a space; redacted, cut to the range. */
export function selectLines(lines: Iterable<string>, range: LogRange): readonly LogLine[] {
  const fromMs = range.fromMs ?? Number.NEGATIVE_INFINITY;
  const toMs = range.toMs ?? Number.POSITIVE_INFINITY;
  const found: LogLine[] = [];
  for (const text of lines) {
    const [, time = "", line = ""] = /^(\S+) ?([\s\S]*)$/.exec(text) ?? [];
    const atMs = Date.parse(time);
    if (!(atMs >= Math.floor(fromMs) && atMs <= toMs) || line.trim() === "") continue;
    const at = asSeconds(time);
    if (at >= (range.fromAt ?? "")) found.push({ at, line: redact(line.slice(0, maxLineChars)) });
  }
  const isForward = range.fromMs !== undefined && range.toMs === undefined;
  return isForward ? found.slice(0, range.limit) : found.slice(Math.max(0, found.length - range.limit));
}

/** `2026-01-02T03:04:05.123456789Z` to unix seconds with nanoseconds, which a number cannot hold. */
function asSeconds(time: string): string {
  const nanos = /\.(\d{1,9})/.exec(time)?.[1] ?? "";
  return `${Math.floor(Date.parse(time) / 1000)}.${nanos.padEnd(9, "0")}`;
}
