// Keeps a process running: restarts it with back-off and records it, so that the next start can find it. Each child has its own
// session, so that Ctrl-C reaches only the supervisor, which stops the children in order.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { identify, isAlive, type ProcessIdentity, sendSignal } from "../../agent/process/process-identity.ts";
import { fullDiskNote } from "./disk.ts";

interface ChildSpec {
  /** File name of its log and of its record under `<data>/run`. */
  readonly name: string;
  readonly title: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly runAs?: { readonly uid?: number; readonly gid?: number };
  /** Signals that stop it, each with its wait time. */
  readonly stopSteps: readonly StopStep[];
  /** Repairs the cause of an EX_CONFIG exit; receives the last log line. False if the operator must act. */
  readonly repair?: (sentence: string) => Promise<boolean>;
  /** Runs before each restart, for example to clean up after a crash. */
  readonly beforeRestart?: () => Promise<void>;
}

export type Child = ReturnType<typeof keepAlive>;

/** EX_CONFIG of sysexits.h. */
const configurationExit = 78;
const firstPauseMs = 500;
const maxPauseMs = 10_000;
/** A run of at least this time resets the back-off. */
const settledMs = 30_000;

export function keepAlive(spec: ChildSpec, dataDir: string, warn: (line: string) => void) {
  const record = join(dataDir, "run", `${spec.name}.json`);
  let running: ChildProcess | undefined;
  let identity: ProcessIdentity | undefined;
  let ended = Promise.resolve();
  let stopping = false;
  let deaths = 0;
  let isMisconfigured = false;
  let pauseMs = firstPauseMs;
  let restart: NodeJS.Timeout | undefined;

  /** Only warns if the disk is full, because the child already runs. */
  const keepRecord = (facts: object): void => {
    try {
      writeFileSync(record, JSON.stringify(facts), { mode: 0o600 });
    } catch (error) {
      warn(`Could not write the record of ${spec.title}: ${(error as Error).message}`);
    }
  };
  const isRepaired = async (): Promise<boolean> => {
    if (stopping || !spec.repair) return false;
    return spec.repair(lastSentence(dataDir, spec.name)).catch(() => false);
  };
  const start = (): void => {
    const log = openLog(dataDir, spec.name);
    const startedMs = performance.now();
    const child = spawn(spec.command, spec.args, {
      // A closed pipe signals to the child that this process has exited, also after kill -9.
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
        if (stopping) return;
        if (performance.now() - startedMs > settledMs) pauseMs = firstPauseMs;
        const when = `starting it again in ${pauseMs / 1000} s`;
        warn(`${spec.title} ended (${why}); ${when}. Its log: ${spec.name}.log.${fullDiskNote(dataDir)}`);
        restart = setTimeout(again, pauseMs);
        pauseMs = Math.min(2 * pauseMs, maxPauseMs);
      };
      const onGone = (): void => {
        running = undefined;
        rmSync(record, { force: true });
        if (!stopping) deaths += 1;
        resolve();
      };
      child.once("exit", async (code, signal) => {
        onGone();
        if (code === configurationExit && !(await isRepaired())) {
          isMisconfigured = true;
          if (!stopping) warn(`${spec.title} cannot run and is not started again. ${lastSentence(dataDir, spec.name)}`);
        } else onEnd(signal ?? `exit code ${code}`);
      });
      child.once("error", (error) => {
        if (child.pid !== undefined) return;
        onGone();
        onEnd(error.message);
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
        if (!stopping) restart = setTimeout(again, maxPauseMs);
      });
  };

  start();
  return {
    name: spec.name,
    pid: () => running?.pid,
    deaths: () => deaths,
    /** True after an exit for wrong configuration or secrets; not restarted. */
    isMisconfigured: () => isMisconfigured,
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

interface StopStep {
  readonly signal: NodeJS.Signals;
  readonly waitMs: number;
}

export async function endProcess(known: ProcessIdentity, steps: readonly StopStep[]): Promise<boolean> {
  for (const { signal, waitMs } of steps) {
    if (!sendSignal(known, signal)) return !isAlive(known);
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      if (!isAlive(known)) return true;
      await sleep(50);
    }
  }
  return !isAlive(known);
}

const maxBytes = 20e6;

/** Opens `<data>/logs/<name>.log` for appending; renames a large file to `.1` first. */
function openLog(dataDir: string, name: string): number {
  const path = join(dataDir, "logs", `${name}.log`);
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > maxBytes) renameSync(path, `${path}.1`);
  return openSync(path, "a", 0o600);
}

/** The last lines of a log, for a message about a child that failed. */
export function logTail(dataDir: string, name: string, lines = 5): string {
  try {
    const text = readFileSync(join(dataDir, "logs", `${name}.log`), "utf8").slice(-8000);
    return text.trimEnd().split("\n").slice(-lines).join("\n");
  } catch {
    return "(no log)";
  }
}

/** Last line that is not JSON: the error message of a child. Lines of its logger may follow, because it writes asynchronously. */
export function lastSentence(dataDir: string, name: string): string {
  const lines = logTail(dataDir, name, 100).split("\n");
  return lines.findLast((line) => !line.startsWith("{")) ?? lines.at(-1) ?? "";
}
