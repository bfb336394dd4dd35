// The processes of one machine, started in order and stopped in the reverse one: agents drain first, PostgreSQL goes last.
import { mkdirSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { join, resolve } from "node:path";
import type { Child } from "./child.ts";
import { keepAlive } from "./child.ts";
import { type AgentPlaces, agentEnvironment, controlPlaneEnvironment } from "./environment.ts";
import { endModelServers, killModelServers } from "./model-servers.ts";
import { innerPort } from "./ports.ts";
import { startPostgres } from "./postgres.ts";
import { answersOk, untilReady } from "./ready.ts";
import type { Screen } from "./screen.ts";

const root = resolve(import.meta.dirname, "../..");
const controlPlaneLimitMs = 60_000;

export interface Stack {
  startDatabase(signal: AbortSignal): Promise<string>;
  startControlPlane(databaseUrl: string, signal: AbortSignal): Promise<void>;
  startAgents(driver: AgentPlaces["driver"], agents: number): readonly Child[];
  /** Bounded by the sum of the children's stop steps (under 40 s); leaves none behind. */
  stop(): Promise<void>;
  /** At once, without draining. */
  kill(): void;
}

export function createStack(dataDir: string, port: number, env: NodeJS.ProcessEnv, screen: Screen): Stack {
  let postgres: Child | undefined;
  let controlPlane: Child | undefined;
  const agents: Child[] = [];
  let rpcPort = 0;
  const program = (path: string): string[] => ["--disable-warning=ExperimentalWarning", join(root, path)];

  return {
    async startDatabase(signal) {
      if (env["DATABASE_URL"]) return env["DATABASE_URL"];
      const step = screen.step("PostgreSQL");
      const started = await startPostgres(dataDir, step, screen.warn, (child) => (postgres = child), signal);
      step.done();
      return started.databaseUrl;
    },
    async startControlPlane(databaseUrl, signal) {
      const step = screen.step("Control plane");
      rpcPort = await innerPort(dataDir, "rpc");
      const child = keepAlive(
        {
          name: "control-plane",
          title: "The control plane",
          command: process.execPath,
          args: program("control-plane/main.ts"),
          env: controlPlaneEnvironment(env, { dataDir, port, rpcPort, databaseUrl }),
          stopSteps: [
            { signal: "SIGTERM", waitMs: 10_000 },
            { signal: "SIGKILL", waitMs: 2_000 },
          ],
        },
        dataDir,
        screen.warn,
      );
      controlPlane = child;
      const wait = { child, title: "The control plane", dataDir, limitMs: controlPlaneLimitMs, signal };
      await untilReady(wait, () => answersOk(`http://127.0.0.1:${port}/readyz`, signal));
      step.done();
    },
    startAgents(driver, count) {
      const machine = { cores: availableParallelism(), memoryBytes: totalmem() };
      for (let number = 1; number <= count; number += 1) {
        mkdirSync(join(dataDir, "agents", String(number)), { recursive: true, mode: 0o700 });
        agents.push(
          keepAlive(
            {
              name: `agent-${number}`,
              title: count === 1 ? "The agent" : `Agent ${number}`,
              command: process.execPath,
              args: program("agent/main.ts"),
              env: agentEnvironment(env, { machine, dataDir, rpcPort, driver, number, agents: count }),
              stopSteps: [
                { signal: "SIGTERM", waitMs: 18_000 },
                { signal: "SIGKILL", waitMs: 2_000 },
              ],
            },
            dataDir,
            screen.warn,
          ),
        );
      }
      return agents;
    },
    async stop() {
      await Promise.all(agents.map((agent) => agent.stop()));
      await endModelServers(dataDir);
      await controlPlane?.stop();
      await postgres?.stop();
    },
    kill() {
      for (const child of [...agents, controlPlane, postgres]) child?.kill();
      killModelServers(dataDir);
    },
  };
}
