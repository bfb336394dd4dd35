// Where log lines go: a file descriptor, in the background, several lines at a time. pino's own destination measures all it
// holds again at every line, which cost more on the hot path than the line itself; here it is given the lines together.
import { pino } from "pino";

export interface LogDestination {
  write(line: string): void;
  /** Calls back when everything written so far has left. */
  flush(done?: (error?: Error) => void): void;
}

const linesTogether = 64;
const waitMs = 200;

/** A process that dies at once loses the lines of the last 200 ms. */
export function createLogDestination(fd: number): LogDestination {
  const out = pino.destination({ dest: fd, sync: false, minLength: 1 });
  let lines: string[] = [];
  let timer: NodeJS.Timeout | undefined;

  const pass = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (lines.length === 0) return;
    const together = lines.join("");
    lines = [];
    out.write(together);
  };

  return {
    write(line) {
      if (lines.push(line) >= linesTogether) pass();
      // A line that waits is no reason to stay alive: the way out flushes.
      else timer ??= setTimeout(pass, waitMs).unref();
    },
    flush(done) {
      pass();
      out.flush(done);
    },
  };
}
