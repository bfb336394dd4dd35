// A model server of its own for a benchmark.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { atWorkerEnd } from "../test/fakes/worker-end.ts";

const threads = Number(process.env["STOKER_BENCH_THREADS"] ?? 2);

export async function startServer(model: string, maxBatchSize: number, env: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "stoker-bench-"));
  const addressFile = join(folder, "address.json");
  const child: ChildProcess = spawn(process.execPath, [join(import.meta.dirname, "../runtime/main.ts")], {
    env: {
      PATH: process.env["PATH"],
      TMPDIR: folder,
      STOKER_INSTANCE_ID: "bench",
      STOKER_MODEL_PATH: model,
      STOKER_SERVED_MODEL_NAME: "m",
      STOKER_MAX_BATCH_SIZE: String(maxBatchSize),
      STOKER_CPUS: String(threads),
      STOKER_GPU_LAYERS: "0",
      STOKER_ADDRESS_FILE: addressFile,
      ...env,
    },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const forget = atWorkerEnd(() => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  });
  const isReady = async () =>
    existsSync(addressFile) && (await fetch(`${urlIn(addressFile)}/health`).catch(() => undefined))?.ok === true;
  for (let i = 0; !(await isReady()); i++) {
    if (child.exitCode !== null || i > 600) throw new Error("the model server did not become ready");
    await sleep(100);
  }
  return {
    url: urlIn(addressFile),
    pid: child.pid ?? 0,
    async stop() {
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
      rmSync(folder, { recursive: true, force: true });
      forget();
    },
  };
}

const urlIn = (addressFile: string) => `http://127.0.0.1:${JSON.parse(readFileSync(addressFile, "utf8")).port}`;

export function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
