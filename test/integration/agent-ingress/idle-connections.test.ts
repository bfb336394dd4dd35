// F14: clients that connect to the data path and say nothing cost it little, keep nobody out and are closed.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { call, startDataPath } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { allowedConnections, holdIdle, type IdleConnections, residentMiB } from "../../fakes/idle-connections.ts";
import { isNightly, longer } from "../../fakes/nightly.ts";

let engine: FakeEngine | undefined;
let idle: IdleConnections | undefined;
let child: ChildProcess | undefined;

afterEach(async () => {
  idle?.close();
  if (child?.connected) {
    child.disconnect();
    await once(child, "exit");
  }
  await engine?.close();
  [engine, idle, child] = [undefined, undefined, undefined];
});

it("are closed after their bound: those that never spoke, that began a request, and that came back no more", async () => {
  engine = await startFakeEngine({ tokens: 4 });
  // Long enough for the last request of this test, whose head is bound by it too.
  const path = await startDataPath(engine.origin, { limits: { headMs: 3_000, idleMs: 3_000 } });
  idle = await holdIdle(path.port, 60);
  await vi.waitFor(() => expect(idle?.open).toBe(0), { timeout: 30_000, interval: 50 });
  expect((await call(path.port)).status).toBe(200);
  await path.close();
});

it("in their thousands leave room for those who ask, and cost little memory each", async () => {
  const count = allowedConnections(longer(400, 10_000));
  engine = await startFakeEngine({ tokens: 4 });
  child = fork(join(import.meta.dirname, "../../fakes/ingress-process.ts"), [engine.origin, "8"]);
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  for (let i = 0; i < 20; i += 1) expect((await call(port)).status).toBe(200);
  const before = residentMiB(child.pid ?? 0);
  idle = await holdIdle(port, count);
  for (const carrier of ["shared", "alone"] as const) expect((await call(port, { carrier })).status).toBe(200);
  const grown = residentMiB(child.pid ?? 0) - before;
  process.stdout.write(`${count} idle connections at the data path: +${grown.toFixed(0)} MiB\n`);
  expect(grown).toBeLessThan(60 + (count * 32) / 1024);
  if (!isNightly) return;
  await vi.waitFor(() => expect(idle?.open).toBe(0), { timeout: 180_000, interval: 1_000 });
  expect((await call(port)).status).toBe(200);
}, 300_000);
