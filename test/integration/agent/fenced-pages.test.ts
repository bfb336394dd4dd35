// What an operator reads of an agent that is fenced: its metrics page, and `stoker inspect` on its host.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createAgentMetrics } from "../../../agent/metrics/agent-metrics.ts";
import { type InspectionParts, inspection } from "../../../agent/wiring/inspection.ts";
import type { HostId } from "../../../proto/ids.ts";

const root = join(import.meta.dirname, "../../..");
const run = promisify(execFile);
let folder: string;
let server: Server;
let fencedWhy: string;

const session = () => ({
  isConnected: false,
  isFenced: fencedWhy !== "",
  fencedWhy,
  hasKeys: fencedWhy === "",
  nodeEpoch: 7n,
  leaseRemainingSeconds: 0,
  reconnects: new Map([["fenced", 3] as const]),
});
const spool = { depth: () => ({ records: 2, bytes: 512, oldestAgeSeconds: 4 }) };
const clock = { skewSeconds: 0, roundTripSeconds: 0.01 };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-fenced-"));
  const parts = {
    hostId: "host-1" as HostId,
    node: "gpu-1",
    version: "0.1.0",
    driver: "process",
    addresses: ["10.0.0.1:9090"],
    advertise: () => "http://10.0.0.7:9100",
    inventory: () => ({ os: "linux", cpuCores: 2 }),
    control: { state: session, clock },
    spool,
    samples: { figures: () => ({}), host: { value: undefined }, withUsage: <T>(one: T) => one },
    report: () => undefined,
  } as unknown as InspectionParts;
  server = createServer((_, response) => response.end(JSON.stringify(inspection(parts))));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  writeFileSync(join(folder, "agent.json"), JSON.stringify({ metrics_port: port }));
});
afterEach(async () => {
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

it.each([
  ["the certificate was revoked", "1", /FENCED, serves and starts nothing: the certificate was revoked/],
  ["", "0", /NOT connected; requests are still served/],
])("say that it is fenced and why, or that it is not (%s)", async (why, gauge, sentence) => {
  fencedWhy = why;
  const metrics = createAgentMetrics();
  metrics.observe({ session, clock: () => clock, errors: () => ({}), spool: spool.depth });
  const page = await metrics.registry.metrics();
  expect(page).toMatch(new RegExp(`^stoker_agent_fenced ${gauge}$`, "m"));
  expect(page).toMatch(/^stoker_agent_reconnects_total\{reason="fenced"\} 3$/m);
  const { stdout } = await run(process.execPath, [join(root, "cli/main.ts"), "inspect", "--data", folder]);
  expect(stdout).toMatch(sentence);
  expect(stdout).toContain("2 records, 512 bytes, oldest 4 s");
});
