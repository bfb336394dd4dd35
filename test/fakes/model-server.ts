// Starts a real model server as a process, and waits until it is healthy.
import { type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "./free-port.ts";
import { atWorkerEnd } from "./worker-end.ts";

export interface ModelServer {
  readonly origin: string;
  readonly pid: number;
  stop(): Promise<void>;
}

interface ModelServerOptions {
  /** For errors. */
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly startLimitMs: number;
  readonly env?: NodeJS.ProcessEnv;
  readonly stdio?: SpawnOptions["stdio"];
}

/** Adds `--host` and `--port` to the arguments. Throws if `/health` is not 200 in time. */
export async function startModelServer({
  name,
  program,
  args,
  startLimitMs,
  env = process.env,
  stdio = "ignore",
}: ModelServerOptions): Promise<ModelServer> {
  const port = await freePort();
  // Its own process group: the server's children end with it.
  const child = spawn(program, [...args, "--host", "127.0.0.1", "--port", String(port)], {
    env,
    stdio,
    detached: true,
  });
  const end = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, "SIGKILL");
  };
  const forget = atWorkerEnd(end);
  const exited = once(child, "exit");
  const origin = `http://127.0.0.1:${port}`;
  const endMs = performance.now() + startLimitMs;
  // Not `vi.waitFor`, which a benchmark cannot use.
  while (!(await fetch(`${origin}/health`).catch(() => undefined))?.ok) {
    if (child.exitCode !== null || child.signalCode !== null || performance.now() > endMs) {
      end();
      throw new Error(`${name} did not become ready (exit ${child.exitCode ?? child.signalCode ?? "none"})`);
    }
    await wait(50);
  }
  return {
    origin,
    pid: child.pid as number,
    stop: async () => {
      end();
      await exited;
      forget();
    },
  };
}
