// Keeps a process running: restarts it with back-off and records it, so that the next start can find it. Each child has its own
// session, so that Ctrl-C reaches only the supervisor, which stops the children in order.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { identify, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { fullDiskNote } from "./disk.ts";
import { endProcess, type StopStep } from "./end-process.ts";
import { lastSentence, openLog } from "./log-file.ts";

export interface ChildSpec {
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

export interface Child {
  readonly name: string;
  readonly pid: () => number | undefined;
  /** Number of unexpected exits. */
  readonly deaths: () => number;
  /** True after an exit for wrong configuration or secrets; not restarted. */
  readonly isMisconfigured: () => boolean;
  stop(): Promise<void>;
  kill(): void;
}

/** EX_CONFIG of sysexits.h. */
const configurationExit = 78;
const firstPauseMs = 500;
const maxPauseMs = 10_000;
/** A run of at least this time resets the back-off. */
const settledMs = 30_000;

export function keepAlive(spec: ChildSpec, dataDir: string, warn: (line: string) => void): Child {
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
      // A closed pipe tells the child that this process has exited, also after kill -9.
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
