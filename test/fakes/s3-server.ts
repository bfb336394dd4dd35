// A real S3 server of other people's making: moto, from the Python package index. scripts/test brings it; without it
// `undefined`, and whoever asks says what was not proven.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { hasModule, python } from "./python.ts";
import { atWorkerEnd } from "./worker-end.ts";

export interface S3Server {
  readonly endpoint: string;
  makeBucket(name: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startS3Server(): Promise<S3Server | undefined> {
  if (!(await hasModule("moto.server"))) return undefined;
  // It takes a free port itself and names it: one that is looked for beforehand may be taken meanwhile.
  const child = spawn(python, ["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  atWorkerEnd(() => child.kill("SIGKILL"));
  const endpoint = await announcedEndpoint(child);
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

const startMs = 60_000;

function announcedEndpoint(child: ChildProcessByStdio<null, Readable, Readable>): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    const fail = (why: string) => reject(new Error(`the S3 server did not start: ${why}\n${output}`));
    const timer = setTimeout(() => fail(`no address within ${startMs / 1000} s`), startMs);
    child.once("exit", (code) => fail(`exit code ${code}`));
    // Both are read to the end, or the server would wait for a full pipe.
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        if (output.length < 10_000) output += chunk;
        const address = /Running on (http:\S+)/.exec(output)?.[1];
        if (address === undefined) return;
        clearTimeout(timer);
        resolve(address);
      });
    }
  });
}
