// The docker suite needs an engine. Where none answers and this is root, one is started and stopped again afterwards.
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

export type Engine = { readonly ok: true; stop(): Promise<void> } | { readonly ok: false; readonly reason: string };

export async function findOrStartEngine(): Promise<Engine> {
  if (process.env["DOCKER_HOST"] !== undefined || (await answers())) return { ok: true, stop: async () => {} };
  if (process.platform !== "linux") return { ok: false, reason: "no Docker engine answers" };
  if (process.getuid?.() !== 0) return { ok: false, reason: "no Docker engine answers, and only root can start one" };
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
  const said = readFileSync(logPath, "utf8").trim().split("\n").slice(-3).join("\n");
  return {
    ok: false,
    reason: `no Docker engine answers and dockerd did not start: ${ended ?? "no answer in time"}\n${said}`,
  };
}

async function stopEngine(daemon: ChildProcess): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  const gone = once(daemon, "exit");
  daemon.kill("SIGTERM");
  if ((await Promise.race([gone, sleep(stopLimitMs, "late", { ref: false })])) === "late") {
    daemon.kill("SIGKILL");
    await gone;
  }
}

function answers(): Promise<boolean> {
  return new Promise((resolve) => {
    const ask = request({ socketPath: socket, path: "/_ping", timeout: 3000 }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    ask.once("timeout", () => ask.destroy(new Error("timeout")));
    ask.once("error", () => resolve(false));
    ask.end();
  });
}
