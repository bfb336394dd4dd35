// Writes the log lines of a serving process to a file descriptor, in the background and in batches: a write per line costs more
// on the hot path than the line itself. A line that cannot be written (full disk, closed reader) is dropped and counted and
// never ends the process; the first lines after that report the loss.
import { write, writeSync } from "node:fs";

export interface LogDestination {
  write(line: string): void;
  /** Calls back when everything written so far has left, or could not. */
  flush(done?: (error?: Error) => void): void;
}

const waitMs = 200;
const fullPipeWaitMs = 100;
/** A stalled reader costs lines, not memory. */
const maxWaitingLines = 20_000;

/** `linesTogether`: as many are not waited with. A process that is killed loses the lines of the last 200 ms. */
export function createLogDestination(fd: number, linesTogether: number): LogDestination {
  let lines: string[] = [];
  let isWriting = false;
  let timer: NodeJS.Timeout | undefined;
  let lost = 0;
  /** Lost lines that are reported in lines being written. */
  let reporting = 0;
  /** Error of the last failure. */
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
    reporting = lost;
    const bytes = Buffer.from(together());
    lines = [];
    isWriting = true;
    put(bytes, count);
  }

  /** After a loss the last line may be cut: start a new one. */
  const together = (): string => (lost > 0 ? `\n${lossLine(lost, reason)}\n` : "") + lines.join("");

  function put(bytes: Buffer, count: number): void {
    write(fd, bytes, (error, written) => {
      if (error?.code === "EAGAIN") setTimeout(put, fullPipeWaitMs, bytes, count);
      else if (error) failed(error, count);
      else if (written < bytes.length) put(bytes.subarray(written), count);
      else {
        isWriting = false;
        lost -= reporting;
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
    const waiting = flushes;
    flushes = [];
    for (const done of waiting) done(error);
  }

  // Try waiting lines once when the process exits by itself, and not again: a full disk must not delay the exit.
  process.on("exit", () => {
    if (lines.length === 0) return;
    try {
      writeSync(fd, together());
    } catch {
      // The process exits: nothing can report this.
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
