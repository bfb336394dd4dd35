// Clients that connect to the public port and say nothing: they cost little, keep nobody out and are closed after a stated time.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { defaultServerTimes } from "../../../control-plane/http/connections/connection-limits.ts";
import { startEdge } from "../../fakes/edge.ts";
import { allowedConnections, holdIdle, type IdleConnections, residentMiB } from "../../fakes/idle-connections.ts";
import { isNightly, longer } from "../../fakes/nightly.ts";

let idle: IdleConnections | undefined;
let child: ChildProcess | undefined;
afterEach(async () => {
  idle?.close();
  if (child?.connected) {
    child.disconnect();
    await once(child, "exit");
  }
  [idle, child] = [undefined, undefined];
});

it("are closed after their bound: those that never spoke, that began a request, and that came back no more", async () => {
  const serverTimes = { headersTimeout: 1_000, keepAliveTimeout: 1_500, connectionsCheckingInterval: 500 };
  const edge = await startEdge({ change: (deps) => ({ ...deps, serverTimes }) });
  idle = await holdIdle(Number(new URL(edge.url).port), 60);
  await vi.waitFor(() => expect(idle?.open).toBe(0), { timeout: 30_000, interval: 50 });
  expect((await fetch(`${edge.url}/healthz`)).status).toBe(200);
  await edge.close();
});

it("in their thousands leave others served, cost little memory each, and are closed in time", async () => {
  const count = allowedConnections(longer(400, 10_000));
  child = fork(join(import.meta.dirname, "../../fakes/edge-process.ts"));
  const [{ url }] = (await once(child, "message")) as [{ url: string }];
  for (let i = 0; i < 20; i += 1) expect((await fetch(`${url}/healthz`)).status).toBe(200);
  const before = residentMiB(child.pid ?? 0);
  idle = await holdIdle(Number(new URL(url).port), count);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  const grown = residentMiB(child.pid ?? 0) - before;
  process.stdout.write(`${count} idle connections at the public port: +${grown.toFixed(0)} MiB\n`);
  expect(grown).toBeLessThan(60 + (count * 32) / 1024);
  if (!isNightly) return;
  const { keepAliveTimeout, headersTimeout, connectionsCheckingInterval } = defaultServerTimes;
  const boundMs = Math.max(keepAliveTimeout, headersTimeout) + connectionsCheckingInterval;
  await vi.waitFor(() => expect(idle?.open).toBe(0), { timeout: 2 * boundMs, interval: 1_000 });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
}, 300_000);
