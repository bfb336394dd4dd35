// Where the log lines of a serving process go: a file descriptor, in the background, many lines at a time, since a write of
// its own for each cost more on the hot path than the line itself. A line that cannot be written (the disk is full, the reader
// is gone) is dropped and counted and never ends the process; the first lines that can be written again say so.
import { write, writeSync } from "node:fs";

export interface LogDestination {
  write(line: string): void;
  /** Calls back when everything written so far has left, or could not. */
  flush(done?: (error?: Error) => void): void;
}

const waitMs = 200;
const fullPipeWaitMs = 100;
/** A reader that stands still costs lines rather than memory. */
const maxWaitingLines = 20_000;

/** `linesTogether`: as many are not waited with. A process that is killed loses the lines of the last 200 ms. */
export function createLogDestination(fd: number, linesTogether: number): LogDestination {
  let lines: string[] = [];
  let isWriting = false;
  let timer: NodeJS.Timeout | undefined;
  let lost = 0;
  /** Of the lost, those that the lines on their way tell of. */
  let telling = 0;
  /** Of the last failure. */
  let reason = "";
  let flushes: ((error?: Error) => void)[] = [];

  function pass(): void {
    clearTimeout(timer);
    timer = undefined;
    if (isWriting) return;
    if (lines.length === 0) {
      ended();
      return;
    }
    const count = lines.length;
    telling = lost;
    const bytes = Buffer.from(together());
    lines = [];
    isWriting = true;
    put(bytes, count);
  }

  /** After a loss the last line may have been cut: what follows begins one of its own. */
  const together = (): string => (lost > 0 ? `\n${lossLine(lost, reason)}\n` : "") + lines.join("");

  function put(bytes: Buffer, count: number): void {
    write(fd, bytes, (error, written) => {
      if (error?.code === "EAGAIN") setTimeout(put, fullPipeWaitMs, bytes, count);
      else if (error) failed(error, count);
      else if (written < bytes.length) put(bytes.subarray(written), count);
      else {
        isWriting = false;
        lost -= telling;
        pass();
      }
    });
  }

  function failed(error: NodeJS.ErrnoException, count: number): void {
    isWriting = false;
    lost += count;
    reason = error.code ?? error.message;
    ended(error);
    if (lines.length > 0) timer ??= setTimeout(pass, waitMs).unref();
  }

  function ended(error?: Error): void {
    const told = flushes;
    flushes = [];
    for (const done of told) done(error);
  }

  // What waits when the process leaves by itself is tried once, and not again: a full disk must not keep it from ending.
  process.on("exit", () => {
    if (lines.length === 0) return;
    try {
      writeSync(fd, together());
    } catch {
      // Nobody is left to be told.
    }
  });

  return {
    write(line) {
      if (lines.length >= maxWaitingLines) {
        lost += 1;
        reason = "the reader does not keep up";
      } else if (lines.push(line) >= linesTogether) pass();
      // A line that waits is no reason to stay alive: the way out flushes.
      else timer ??= setTimeout(pass, waitMs).unref();
    },
    flush(done) {
      if (done) flushes.push(done);
      pass();
    },
  };
}

const lossLine = (lost: number, reason: string): string =>
  JSON.stringify({
    level: 40,
    time: Date.now(),
    lost,
    reason,
    msg: "lines of this log could not be written and are lost",
  });
