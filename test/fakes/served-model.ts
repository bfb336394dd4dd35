// A model behind the runtime's own HTTP server, in this process.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { createRuntimeServer } from "../../runtime/server/http-server.ts";
import { RuntimeMetrics } from "../../runtime/server/metrics.ts";
import { RuntimeState } from "../../runtime/server/runtime-state.ts";
import { UsageLog } from "../../runtime/server/usage-log.ts";
import { openTasks, type TaskOptions } from "../../runtime/tasks/open-tasks.ts";

export interface ServedModel {
  // biome-ignore lint/suspicious/noExplicitAny: answers are asserted field by field.
  post(path: string, body: unknown): Promise<{ readonly status: number; readonly body: any }>;
  /** The answer as it stands. */
  send(path: string, body: unknown): Promise<{ readonly status: number; readonly text: string }>;
  readonly state: RuntimeState;
  readonly origin: string;
  close(): Promise<void>;
}

export async function serveModel(modelPath: string, more: Partial<TaskOptions> = {}): Promise<ServedModel> {
  const state = new RuntimeState("instance", "o/m");
  const metrics = new RuntimeMetrics(state);
  const engine = await openTasks({
    modelPath,
    task: "",
    threads: 1,
    memoryBytes: 0,
    provider: "auto",
    hasGpu: false,
    graphCacheDir: undefined,
    maxBatchSize: 8,
    latencyBudgetMs: 5,
    observe: () => {},
    ...more,
  });
  state.ready(engine);
  const server = createRuntimeServer({
    state,
    metrics,
    log: pino({ level: "silent" }),
    usageLog: new UsageLog(),
    sleep: async () => false,
    wake: async () => {},
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    state,
    origin: url,
    async post(path, body) {
      const answer = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
      return { status: answer.status, body: await answer.json() };
    },
    async send(path, body) {
      const answer = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
      return { status: answer.status, text: await answer.text() };
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await engine.close();
    },
  };
}
