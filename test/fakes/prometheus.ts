// A real Prometheus over a stack, by the files of deploy/ with an interval of a second.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { freePort } from "./free-port.ts";
import type { Stack } from "./processes.ts";
import { atWorkerEnd } from "./worker-end.ts";

const deploy = join(import.meta.dirname, "../../deploy");
export const hasPrometheus = spawnSync("prometheus", ["--version"]).status === 0;
export const alertRules = readFileSync(join(deploy, "alerts.yaml"), "utf8");

export interface PrometheusAnswer {
  readonly status: string;
  readonly error?: string;
  readonly data: { readonly result: readonly { readonly metric: Readonly<Record<string, string>> }[] };
}

export interface Prometheus {
  /** Result of a query now. */
  ask(query: string): Promise<PrometheusAnswer>;
  /** A page of its API, as JSON. */
  get(path: string): Promise<unknown>;
  stop(): Promise<void>;
}

/** `rules`: content of the rule file. `targets`: addresses that are no agents of the stack. */
export async function startPrometheus(
  stack: Stack,
  { rules = alertRules, targets = [] }: { readonly rules?: string; readonly targets?: readonly string[] } = {},
): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-prometheus-"));
  const { admin } = JSON.parse(readFileSync(stack.controlPlane.portsFile, "utf8")) as { readonly admin: number };
  const config = readFileSync(join(deploy, "prometheus.yaml"), "utf8")
    .replaceAll("127.0.0.1:9091", `127.0.0.1:${admin}`)
    .replaceAll(/(scrape|evaluation|refresh)_interval: 15s/g, "$1_interval: 1s");
  const others = `  - job_name: others\n    static_configs:\n      - targets: ${JSON.stringify(targets)}\n`;
  writeFileSync(join(folder, "prometheus.yaml"), `${config}${targets.length > 0 ? others : ""}`);
  writeFileSync(join(folder, "alerts.yaml"), rules);
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  const child: ChildProcess = spawn(
    "prometheus",
    [
      `--config.file=${folder}/prometheus.yaml`,
      `--storage.tsdb.path=${folder}/data`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: "ignore" },
  );
  const forget = atWorkerEnd(() => child.kill("SIGKILL"));
  const get = async (path: string) => (await fetch(`${address}${path}`)).json();
  await vi.waitFor(async () => expect((await fetch(`${address}/-/ready`)).status).toBe(200), {
    timeout: 60_000,
    interval: 200,
  });
  return {
    ask: async (query) => (await get(`/api/v1/query?${new URLSearchParams({ query })}`)) as PrometheusAnswer,
    get,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = new Promise((resolve) => child.once("exit", resolve));
        child.kill("SIGKILL");
        await ended;
      }
      forget();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
