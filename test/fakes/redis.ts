// A real redis-server of a test's own, without persistence, that the test may kill, start again and flush.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { connect } from "node:net";
import { freePort } from "./free-port.ts";
import { atWorkerEnd } from "./worker-end.ts";

export interface TestRedis {
  readonly url: string;
  /** SIGKILL; returns when it is gone. */
  kill9(): Promise<void>;
  /** On the same port, empty; returns when it answers. */
  start(): Promise<void>;
  /** How many there are. */
  keys(): Promise<number>;
  /** FLUSHALL, and every client's connection is cut. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

export const hasRedis = spawnSync("redis-server", ["--version"]).status === 0;

/** Says loudly what a suite without redis-server leaves open. */
export function withoutRedis(notProven: string): void {
  if (hasRedis) return;
  console.warn(
    `\n*** NOT PROVEN on a real Redis: ${notProven}\n*** because there is no redis-server in PATH (Debian: apt-get install redis-server)\n`,
  );
}

export async function startRedis(): Promise<TestRedis> {
  const port = await freePort();
  let server: ChildProcess | undefined;

  async function start(): Promise<void> {
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    const child = spawn("redis-server", args, { stdio: "ignore" });
    server = child;
    for (const deadline = Date.now() + 20_000; ; ) {
      if ((await ask(port, "PING").catch(() => "")).startsWith("+PONG")) return;
      if (child.exitCode !== null || Date.now() > deadline) throw new Error("the test's redis-server did not start");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async function kill9(): Promise<void> {
    const child = server;
    server = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  const forget = atWorkerEnd(() => server?.kill("SIGKILL"));
  await start();
  return {
    url: `redis://127.0.0.1:${port}`,
    kill9,
    start,
    keys: async () => Number((await ask(port, "DBSIZE")).slice(1)),
    async flush() {
      await ask(port, "FLUSHALL");
      await ask(port, "CLIENT KILL TYPE normal");
      await ask(port, "CLIENT KILL TYPE pubsub");
    },
    async stop() {
      forget();
      await kill9();
    },
  };
}

/** One inline command; the beginning of its answer. */
function ask(port: number, command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`${command}\r\n`));
    socket.once("data", (data) => {
      socket.destroy();
      resolve(String(data));
    });
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("closed")));
  });
}
