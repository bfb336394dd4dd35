// An instance's output: one file that only grows, set aside when it is large, read from its end.
import { closeSync, copyFileSync, fstatSync, openSync, readSync, renameSync, statSync, truncateSync } from "node:fs";
import { redact } from "../../proto/redact.ts";
import type { LogLine, LogRange } from "../reconcile/driver.ts";

const largeBytes = 16 * 1024 * 1024;
/** Older lines are on disk but are not served: parsing them would stall the streams of this host. */
const readBytes = 4 * 1024 * 1024;
const maxLineChars = 8_192;

/** Before a start. */
export function rotateLog(path: string): void {
  if (sizeOf(path) > largeBytes) renameSync(path, `${path}.1`);
}

/** While it is being written: the writer appends, so it goes on at the new end. What it writes meanwhile is lost. */
export function trimLog(path: string): void {
  if (sizeOf(path) <= 2 * largeBytes) return;
  copyFileSync(path, `${path}.1`);
  truncateSync(path, 0);
}

/** Lines without a time of their own have that of the line before; the first ones `startMs`. */
export function readLog(path: string, range: LogRange, startMs: number): readonly LogLine[] {
  const current = tailOf(path, readBytes);
  const before = current.length < readBytes ? tailOf(`${path}.1`, readBytes - current.length) : "";
  const fromMs = range.fromMs ?? Number.NEGATIVE_INFINITY;
  const toMs = range.toMs ?? Number.POSITIVE_INFINITY;
  const found: LogLine[] = [];
  let lastMs = startMs;
  for (const text of `${before}${current}`.split("\n")) {
    if (text.trim() === "") continue;
    // Never backwards: what a reader pages through is ascending.
    lastMs = Math.max(lastMs, timeOf(text) ?? lastMs);
    if (lastMs >= fromMs && lastMs <= toMs)
      found.push({ at: asSeconds(lastMs), line: redact(text.slice(0, maxLineChars)) });
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

function asSeconds(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const nanos = Math.floor((ms - seconds * 1000) * 1e6);
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
