// A Docker engine of its own for tests that stop and start one: nobody else's containers hang on it.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { vi } from "vitest";

const run = promisify(execFile);

export interface PrivateEngine {
  /** For DOCKER_HOST. */
  readonly address: string;
  docker(...args: string[]): Promise<string>;
  start(): Promise<void>;
  /** Its containers end with it, as they do where live-restore is off. */
  stop(signal: NodeJS.Signals): Promise<void>;
  close(): Promise<void>;
}

export function privateEngine(): PrivateEngine {
  const folder = mkdtempSync(join(tmpdir(), "stoker-engine-"));
  const address = `unix://${join(folder, "docker.sock")}`;
  // An engine without a default network deletes docker0 when it starts, also that of the machine's own engine.
  const bridge = `skpe${randomBytes(4).toString("hex")}`;
  let hasBridge = false;
  let daemon: ChildProcess | undefined;
  const docker = async (...args: string[]) =>
    (await run("docker", ["--host", address, ...args], { timeout: 90_000, maxBuffer: 16 * 1024 * 1024 })).stdout.trim();
  const engine: PrivateEngine = {
    address,
    docker,
    async start() {
      const at = (name: string) => join(folder, name);
      const places = ["--data-root", at("data"), "--exec-root", at("exec"), "--pidfile", at("pid"), "--host", address];
      // The machine's own engine keeps the packet filter; two would take each other's rules away.
      const apart = ["--bridge", bridge, "--iptables=false", "--ip6tables=false"];
      if (!hasBridge) {
        await run("ip", ["link", "add", bridge, "type", "bridge"]);
        hasBridge = true;
        await run("ip", ["address", "add", `10.254.${randomInt(256)}.1/24`, "dev", bridge]);
      }
      rmSync(at("pid"), { force: true });
      daemon = spawn("dockerd", [...places, ...apart], { stdio: "ignore", detached: true });
      await vi.waitFor(() => docker("version"), { timeout: 60_000, interval: 250 });
    },
    async stop(signal) {
      if (!daemon || daemon.exitCode !== null || daemon.signalCode !== null) return;
      const gone = once(daemon, "exit");
      daemon.kill(signal);
      await gone;
    },
    async close() {
      const left = await docker("ps", "-aq").catch(() => "");
      if (left !== "") await docker("rm", "-f", ...left.split("\n")).catch(() => {});
      await engine.stop("SIGTERM");
      if (hasBridge) await run("ip", ["link", "delete", bridge]);
      // An engine that was busy at its end leaves its root mounted on itself.
      await run("umount", ["--lazy", join(folder, "data")]).catch(() => {});
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  return engine;
}
