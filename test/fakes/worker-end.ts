// What a fixture started ends with the test's process, also where nobody is left to stop it: a hook that timed out is not
// awaited, and vitest then ends its worker with SIGTERM, at which Node runs no "exit" listener.

const ends: (() => void)[] = [];

/**
 * Runs `end` when this process ends, what was registered last first. It has half a second for all of them and waits for
 * nothing; it may run after what it ends is gone. Returns what takes it back.
 */
export function atWorkerEnd(end: () => void): () => void {
  if (ends.length === 0) listen("on");
  ends.push(end);
  return () => {
    const at = ends.indexOf(end);
    if (at >= 0) ends.splice(at, 1);
    if (at >= 0 && ends.length === 0) listen("off");
  };
}

const signals = ["SIGTERM", "SIGINT"] as const;

function listen(how: "on" | "off"): void {
  process[how]("exit", endAll);
  for (const signal of signals) process[how](signal, endBySignal);
}

function endAll(): void {
  for (const end of ends.splice(0).reverse()) {
    try {
      end();
    } catch {
      // The others are still to be ended; a folder that somebody wrote to meanwhile stays.
    }
  }
}

function endBySignal(signal: NodeJS.Signals): void {
  endAll();
  listen("off");
  process.kill(process.pid, signal);
}
