// A registry of this machine for tests of pulling: Debian's docker-registry on loopback, which an engine takes without TLS.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { freePort } from "../fakes/free-port.ts";
import { docker } from "./docker-host.ts";

export interface Registry {
  readonly host: string;
  readonly folder: string;
  /** An image of `bytes` that nobody has; answers with its name by digest. It is not kept in the engine. */
  push(name: string, bytes: number): Promise<string>;
  close(): void;
}

/** Undefined, loudly, where the program is missing. */
export async function startRegistry(): Promise<Registry | undefined> {
  if (!hasProgram()) {
    console.warn("\n*** NOT PROVEN: pulling of images by digest\n*** because docker-registry is not installed\n");
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "stoker-registry-"));
  const host = `127.0.0.1:${await freePort()}`;
  const config = {
    version: 0.1,
    log: { level: "error", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: folder }, delete: { enabled: true } },
    http: { addr: host },
  };
  writeFileSync(join(folder, "config.yml"), JSON.stringify(config));
  const child: ChildProcess = spawn("docker-registry", ["serve", join(folder, "config.yml")], { stdio: "ignore" });
  await vi.waitFor(async () => {
    const answer = await fetch(`http://${host}/v2/`, { signal: AbortSignal.timeout(2_000) });
    if (answer.status !== 200) throw new Error(`it answers ${answer.status}`);
  }, 60_000);
  return {
    host,
    folder,
    async push(name, bytes) {
      const tag = `${host}/${name}`;
      const context = mkdtempSync(join(tmpdir(), "stoker-layer-"));
      try {
        writeFileSync(join(context, "content"), randomBytes(bytes));
        execFileSync("tar", ["-C", context, "-cf", `${context}.tar`, "content"]);
        await docker("import", `${context}.tar`, tag);
        const pushed = await docker("push", tag);
        const digest = /digest: (sha256:[0-9a-f]{64})/.exec(pushed)?.[1];
        await docker("rmi", "-f", tag);
        return `${tag}@${digest}`;
      } finally {
        rmSync(context, { recursive: true, force: true });
        rmSync(`${context}.tar`, { force: true });
      }
    },
    close() {
      child.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function hasProgram(): boolean {
  try {
    execFileSync("docker-registry", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
