// Engine of the docker suite. Started, and stopped afterwards, if none is running and this is root.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { root } from "./run-tool.ts";

const startLimitMs = 60_000;
const stopLimitMs = 30_000;
const socket = "/var/run/docker.sock";

type Engine = { readonly ok: true; stop(): Promise<void> } | { readonly ok: false; readonly reason: string };

export async function findOrStartEngine(): Promise<Engine> {
  if (process.env["DOCKER_HOST"] !== undefined || (await answers())) return { ok: true, stop: async () => {} };
  if (process.platform !== "linux") return { ok: false, reason: "no Docker engine is running" };
  if (process.getuid?.() !== 0)
    return { ok: false, reason: "no Docker engine is running, and only root can start one" };
  return startEngine();
}

async function startEngine(): Promise<Engine> {
  mkdirSync(join(root, ".cache"), { recursive: true });
  const logPath = join(root, ".cache", "dockerd.log");
  const log = openSync(logPath, "w");
  const daemon = spawn("dockerd", [], { stdio: ["ignore", log, log], detached: true });
  closeSync(log);
  let ended: string | undefined;
  daemon.once("error", (error) => (ended = error.message));
  daemon.once("exit", (code, signal) => (ended ??= `dockerd ended (${signal ?? code})`));
  const deadline = performance.now() + startLimitMs;
  while (performance.now() < deadline && ended === undefined) {
    if (await answers()) {
      console.log(`Started dockerd (pid ${daemon.pid}) for this run.`);
      return { ok: true, stop: () => stopEngine(daemon) };
    }
    await sleep(250);
  }
  if (ended === undefined) await stopEngine(daemon);
  const tail = readFileSync(logPath, "utf8").trim().split("\n").slice(-3).join("\n");
  return {
    ok: false,
    reason: `no Docker engine is running and dockerd did not start: ${ended ?? "timed out"}\n${tail}`,
  };
}

async function stopEngine(daemon: ChildProcess): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  const exited = once(daemon, "exit");
  daemon.kill("SIGTERM");
  if ((await Promise.race([exited, sleep(stopLimitMs, "late", { ref: false })])) === "late") {
    daemon.kill("SIGKILL");
    await exited;
  }
}

function answers(): Promise<boolean> {
  return new Promise((resolve) => {
    const ping = request({ socketPath: socket, path: "/_ping", timeout: 3000 }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    ping.once("timeout", () => ping.destroy(new Error("timeout")));
    ping.once("error", () => resolve(false));
    ping.end();
  });
}
