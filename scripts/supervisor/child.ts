// A process kept alive: started again with a growing pause when it dies on its own, recorded so that the next start can
// find it. Each child has its own session, so Ctrl-C reaches the supervisor alone, which then stops them in order.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { identify, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { fullDiskNote } from "./disk.ts";
import { endProcess, type StopStep } from "./end-process.ts";
import { openLog } from "./log-file.ts";

export interface ChildSpec {
  /** File name of its log and of its record under `<data>/run`. */
  readonly name: string;
  readonly title: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly runAs?: { readonly uid?: number; readonly gid?: number };
  /** Signals to stop it with, each with the time it is given. */
  readonly stopSteps: readonly StopStep[];
  /** Runs before each start after the first, e.g. to clear what a crash left. */
  readonly beforeRestart?: () => Promise<void>;
}

export interface Child {
  readonly name: string;
  readonly pid: () => number | undefined;
  /** How often it ended on its own. */
  readonly deaths: () => number;
  stop(): Promise<void>;
  kill(): void;
}

const firstPauseMs = 500;
const longestPauseMs = 10_000;
/** After this long alive a death counts as a new trouble, not as more of the old one. */
const settledMs = 30_000;

export function keepAlive(spec: ChildSpec, dataDir: string, warn: (line: string) => void): Child {
  const record = join(dataDir, "run", `${spec.name}.json`);
  let running: ChildProcess | undefined;
  let identity: ProcessIdentity | undefined;
  let ended = Promise.resolve();
  let stopping = false;
  let deaths = 0;
  let pauseMs = firstPauseMs;
  let restart: NodeJS.Timeout | undefined;

  /** A full disk costs the record, not the child that already runs. */
  const keepRecord = (facts: object): void => {
    try {
      writeFileSync(record, JSON.stringify(facts), { mode: 0o600 });
    } catch (error) {
      warn(`${spec.title} runs without a record of it: ${(error as Error).message}`);
    }
  };
  const start = (): void => {
    const log = openLog(dataDir, spec.name);
    const startedMs = performance.now();
    const child = spawn(spec.command, spec.args, {
      // The open pipe is how a child notices that this process is gone, also after kill -9.
      stdio: ["pipe", log, log],
      detached: true,
      env: spec.env,
      ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
      ...spec.runAs,
    });
    closeSync(log);
    child.stdin?.on("error", () => {});
    running = child;
    identity = child.pid === undefined ? undefined : identify(child.pid);
    if (identity) keepRecord({ ...identity, title: spec.title });
    ended = new Promise((resolve) => {
      const onEnd = (why: string): void => {
        running = undefined;
        rmSync(record, { force: true });
        resolve();
        if (stopping) return;
        deaths += 1;
        if (performance.now() - startedMs > settledMs) pauseMs = firstPauseMs;
        const when = `starting it again in ${pauseMs / 1000} s`;
        warn(`${spec.title} ended (${why}); ${when}. Its log: ${spec.name}.log.${fullDiskNote(dataDir)}`);
        restart = setTimeout(again, pauseMs);
        pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      };
      child.once("exit", (code, signal) => onEnd(signal ?? `exit code ${code}`));
      child.once("error", (error) => {
        if (child.pid === undefined) onEnd(error.message);
      });
    });
  };
  const again = (): void => {
    (spec.beforeRestart?.() ?? Promise.resolve())
      .then(() => {
        if (!stopping) start();
      })
      .catch((error: Error) => {
        warn(`${spec.title} cannot be started again yet: ${error.message}`);
        if (!stopping) restart = setTimeout(again, longestPauseMs);
      });
  };

  start();
  return {
    name: spec.name,
    pid: () => running?.pid,
    deaths: () => deaths,
    async stop() {
      stopping = true;
      clearTimeout(restart);
      if (running && identity) await endProcess(identity, spec.stopSteps);
      await ended;
    },
    kill() {
      stopping = true;
      clearTimeout(restart);
      running?.kill("SIGKILL");
    },
  };
}
