// A real S3 server of other people's making: moto, from the Python package index. scripts/test brings it; without it
// `undefined`, and whoever asks says what was not proven.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";
import { atWorkerEnd } from "./worker-end.ts";

export interface S3Server {
  readonly endpoint: string;
  makeBucket(name: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startS3Server(): Promise<S3Server | undefined> {
  const python = process.env["STOKER_TEST_PYTHON"] ?? "python3";
  const found = await promisify(execFile)(python, ["-c", "import moto.server"]).then(
    () => true,
    () => false,
  );
  if (!found) return undefined;
  const port = await freePort();
  const child = spawn(python, ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(port)], { stdio: "ignore" });
  atWorkerEnd(() => child.kill("SIGKILL"));
  const endpoint = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries++) {
    const answers = await fetch(endpoint, { signal: AbortSignal.timeout(2_000) }).then(
      () => true,
      () => false,
    );
    if (answers) break;
    if (tries >= 300 || child.exitCode !== null) throw new Error("the S3 server did not start");
    await wait(100);
  }
  return {
    endpoint,
    async makeBucket(name) {
      const made = await fetch(`${endpoint}/${name}`, { method: "PUT" });
      if (!made.ok) throw new Error(`no bucket: ${made.status}`);
    },
    async stop() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}
