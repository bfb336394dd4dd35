import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { replaceFileSync } from "../../proto/replace-file.ts";
import { UpError } from "./up-error.ts";

type InnerPort = "rpc" | `rpc-${number}` | "postgres";

export async function requireFreePort(port: number): Promise<void> {
  const failure = await tryListen(port);
  if (!failure) return;
  if (failure === "EACCES") {
    throw new UpError(`Port ${port} may only be used by root; choose another with --port, for example --port 8080.`);
  }
  throw new UpError(`Port ${port} is already in use by another program; stop it or choose another with --port.`);
}

/** Internal port, stored in `<data>/ports.json`. Reuses the port of the last start if it is free, because agents reconnect to it. */
export async function innerPort(dataDir: string, name: InnerPort): Promise<number> {
  const path = join(dataDir, "ports.json");
  const known = readKnown(path);
  const kept = known[name];
  const port = kept !== undefined && !(await tryListen(kept)) ? kept : await freePort();
  replaceFileSync(path, `${JSON.stringify({ ...known, [name]: port })}\n`);
  return port;
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

function tryListen(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
}

function readKnown(path: string): { [name in InnerPort]?: number } {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return {};
  }
}
