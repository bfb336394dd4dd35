// Processes of the gateway scenario: an engine stand-in, two chained bare proxies in place of control plane and agent (a chain needs
// more wake-ups than a single process), and Stoker (`scripts/up.ts --model none --external NAME=URL`).
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../test/fakes/free-port.ts";
import { atWorkerEnd } from "../test/fakes/worker-end.ts";

const root = join(import.meta.dirname, "..");

export interface Stack {
  readonly gatewayUrl: string;
  readonly proxyUrl: string;
  /** The second of the two bare proxies. */
  readonly innerProxyUrl: string;
  readonly engineUrl: string;
  readonly apiKey: string;
  readonly model: string;
  readonly pids: {
    readonly controlPlane: number;
    readonly agent: number;
    /** In place of the control plane; forwards to the inner proxy. */
    readonly outerProxy: number;
    /** In place of the agent, before the engine. */
    readonly innerProxy: number;
    /** Starts all of Stoker, PostgreSQL included. */
    readonly up: number;
  };
  stop(): Promise<void>;
}

function start(script: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const child = spawn(process.execPath, [join(root, script), ...args], {
    cwd: root,
    env: { ...process.env, NODE_ENV: "production", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  atWorkerEnd(() => child.kill("SIGTERM"));
  return child;
}

/** Port in the first output line of a child. Throws after 20 s. */
async function portOf(child: ChildProcess): Promise<number> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const timer = setTimeout(() => lines.close(), 20_000);
  for await (const line of lines) {
    clearTimeout(timer);
    const port = Number(/"port":\s*(\d+)/.exec(line)?.[1] ?? /:(\d+)/.exec(line)?.[1]);
    if (port > 0) {
      child.stdout?.resume();
      return port;
    }
  }
  throw new Error("a bench process did not print its port within 20 s");
}

export async function until<T>(what: string, seconds: number, read: () => Promise<T | undefined>): Promise<T> {
  const end = performance.now() + seconds * 1000;
  for (;;) {
    const found = await read().catch(() => undefined);
    if (found !== undefined) return found;
    if (performance.now() > end) throw new Error(`${what} did not happen within ${seconds} s`);
    await sleep(200);
  }
}

const pidIn = (path: string) => (JSON.parse(readFileSync(path, "utf8")) as { pid: number }).pid;

/** Resolves once the process has ended. */
export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await exited;
}

/** `env`: settings of the control plane and agent beside those of this process. */
export async function startStack(env: NodeJS.ProcessEnv = {}): Promise<Stack> {
  const data = mkdtempSync(join(tmpdir(), "stoker-bench-"));
  // If this is root, PostgreSQL runs as another user that must access its files here.
  chmodSync(data, 0o755);
  const children: ChildProcess[] = [];
  const stop = async () => {
    for (const child of children.reverse()) await endChild(child);
    rmSync(data, { recursive: true, force: true });
  };
  try {
    const engine = start("test/fakes/engine-process.ts", ["--port", "0", "--tokens", "64", "--model", "fake/model"]);
    children.push(engine);
    const engineUrl = `http://127.0.0.1:${await portOf(engine)}`;
    const inner = start("bench/bare-proxy.ts", [engineUrl]);
    children.push(inner);
    const innerProxyUrl = `http://127.0.0.1:${await portOf(inner)}`;
    const outer = start("bench/bare-proxy.ts", [innerProxyUrl]);
    children.push(outer);
    const proxyUrl = `http://127.0.0.1:${await portOf(outer)}`;
    const port = await freePort();
    const up = start(
      "scripts/up.ts",
      [
        ...["--port", String(port), "--data", data, "--model", "none", "--driver", "process"],
        ...["--external", `fake/model=${engineUrl}`],
      ],
      // The account's limit is not what is measured.
      { STOKER_TPM_LIMIT: "1000000000", ...env },
    );
    up.stdout?.resume();
    children.push(up);
    const gatewayUrl = `http://127.0.0.1:${port}`;
    // The file is empty shortly before the key is written.
    const readKey = async () => readFileSync(join(data, "admin.key"), "utf8").trim() || undefined;
    const apiKey = await until("the admin key", 90, readKey);
    const model = await until("a ready external model", 90, async () => {
      const answer = await fetch(`${gatewayUrl}/v1/models`, { headers: { authorization: `Bearer ${apiKey}` } });
      const body = (await answer.json()) as { data: { id: string }[] };
      const id = body.data.find((m) => m.id === "fake/model")?.id;
      if (!id) return undefined;
      const probe = await fetch(`${gatewayUrl}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
        body: JSON.stringify({ model: id, messages: [{ role: "user", content: "hi" }] }),
      });
      if (probe.status !== 200) process.stderr.write(`waiting: ${probe.status} ${await probe.clone().text()}\n`);
      await probe.text();
      return probe.status === 200 ? id : undefined;
    });
    return {
      gatewayUrl,
      proxyUrl,
      innerProxyUrl,
      engineUrl,
      apiKey,
      model,
      pids: {
        controlPlane: pidIn(join(data, "run", "control-plane.json")),
        agent: pidIn(join(data, "agents", "1", "agent.json")),
        outerProxy: outer.pid as number,
        innerProxy: inner.pid as number,
        up: up.pid as number,
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
