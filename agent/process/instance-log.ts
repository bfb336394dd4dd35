// Output of an instance: an append-only file, rotated when it is large and read from its end.
import {
  appendFileSync,
  closeSync,
  copyFileSync,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  truncateSync,
} from "node:fs";
import { redact } from "../../proto/redact.ts";
import type { LogLine, LogRange } from "../reconcile/driver.ts";

const largeBytes = 16 * 1024 * 1024;
/** Older lines are on disk but are not served: parsing them would stall the streams of this host. */
const readBytes = 4 * 1024 * 1024;
const maxLineChars = 8_192;

/** Line that a launch writes before those of its process; it is never shown. */
const launchMark = '{"stoker_launch":';

/** Before a start. What is printed from now on has this moment or a later one; what was printed before keeps its own. */
export function beginLog(path: string, launchedAtMs: number): void {
  if (sizeOf(path) > largeBytes) renameSync(path, `${path}.1`);
  // The process before may have ended in the middle of a line.
  appendFileSync(path, `\n${launchMark}true,"time":${Math.floor(launchedAtMs)}}\n`, { mode: 0o600 });
}

/** While it is being written: the writer appends, so it goes on at the new end. Lines written in the meantime are lost. */
export function trimLog(path: string): void {
  if (sizeOf(path) <= 2 * largeBytes) return;
  copyFileSync(path, `${path}.1`);
  truncateSync(path, 0);
}

/**
 * Lines without a time of their own have that of the line or launch before; where the beginning is cut, that of the next, and
 * where no line has one, `startMs`. Of one millisecond each is a nanosecond
 * after the other, so that a reader who goes on after the last one leaves none behind.
 */
export function readLog(path: string, range: LogRange, startMs: number): readonly LogLine[] {
  const current = tailOf(path, readBytes);
  const before = current.length < readBytes ? tailOf(`${path}.1`, readBytes - current.length) : "";
  const fromMs = range.fromMs ?? Number.NEGATIVE_INFINITY;
  const toMs = range.toMs ?? Number.POSITIVE_INFINITY;
  const found: LogLine[] = [];
  const lines = `${before}${current}`
    .split("\n")
    .filter((text) => text.trim() !== "")
    .map((text) => ({ text, ms: timeOf(text) }));
  let lastMs = Math.floor(lines.find(({ ms }) => ms !== undefined)?.ms ?? startMs);
  let sameMs = -1;
  for (const { text, ms: own } of lines) {
    // Never backwards: what a reader pages through is ascending.
    const ms = Math.max(lastMs, Math.floor(own ?? lastMs));
    if (text.startsWith(launchMark)) {
      if (ms > lastMs) sameMs = -1;
      lastMs = ms;
      continue;
    }
    sameMs = ms === lastMs ? Math.min(sameMs + 1, 999_999) : 0;
    lastMs = ms;
    const at = asSeconds(ms, sameMs);
    if (ms >= fromMs && ms <= toMs && at >= (range.fromAt ?? ""))
      found.push({ at, line: redact(text.slice(0, maxLineChars)) });
  }
  const isForward = range.fromMs !== undefined && range.toMs === undefined;
  return isForward ? found.slice(0, range.limit) : found.slice(Math.max(0, found.length - range.limit));
}

function timeOf(text: string): number | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    const { time } = JSON.parse(text) as { time?: unknown };
    return typeof time === "number" && Number.isFinite(time) && time > 0 ? time : undefined;
  } catch {
    return undefined;
  }
}

function asSeconds(ms: number, nanosAfter: number): string {
  const seconds = Math.floor(ms / 1000);
  const nanos = (ms - seconds * 1000) * 1e6 + nanosAfter;
  return `${seconds}.${String(nanos).padStart(9, "0")}`;
}

function tailOf(path: string, bytes: number): string {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch {
    return "";
  }
  try {
    const { size } = fstatSync(file);
    const from = Math.max(0, size - bytes);
    const buffer = Buffer.alloc(size - from);
    const text = buffer.toString("utf8", 0, readSync(file, buffer, 0, buffer.length, from));
    // A cut in the middle of a line leaves half of one.
    return from === 0 ? text : text.slice(text.indexOf("\n") + 1);
  } finally {
    closeSync(file);
  }
}

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
