// Two replicas of which one is cut off from PostgreSQL, and a real agent session that knows both.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { createBarredHosts } from "../../../agent/session/barred-hosts.ts";
import { createControlClock } from "../../../agent/session/control-clock.ts";
import { Identity } from "../../../agent/session/identity.ts";
import { Session } from "../../../agent/session/session.ts";
import type { HostId } from "../../../proto/ids.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { emptySessionStore } from "../../fakes/session-store.ts";
import { startTcpLink, type TcpLink } from "../../fakes/tcp-link.ts";
import { type Replica, startReplica } from "./replica.ts";

const patient = { timeout: 25_000, interval: 25 };
// A quarter of the lease is when a replica says that its database is away.
const limits = { leaseMs: 12_000, lostMs: 60_000 };
const host = "host-1" as HostId;
let postgres: TestPostgres;
let link: TcpLink;
let otherLink: TcpLink;
let cutOff: Replica;
let whole: Replica;
let session: Session;
let folder: string;
let ending: AbortController;
let running: Promise<void>;
let served: boolean[];
let said: string[];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  const url = new URL(await postgres.migratedDatabase());
  link = await startTcpLink(Number(url.port));
  otherLink = await startTcpLink(Number(url.port));
  const otherUrl = new URL(url);
  otherUrl.port = String(otherLink.port);
  whole = await startReplica(otherUrl.href, { owner: "whole", limits, renewEveryMs: 200 });
  url.port = String(link.port);
  cutOff = await startReplica(url.href, { owner: "cut off", limits, renewEveryMs: 200 });
  folder = mkdtempSync(join(tmpdir(), "stoker-identity-"));
  const addresses = [cutOff.address, whole.address];
  const store = emptySessionStore(host);
  ending = new AbortController();
  session = new Session({
    addresses,
    identity: new Identity({
      folder,
      hostId: host,
      hostname: "h",
      addresses,
      readToken: async () => whole.joinToken,
      nowMs: Date.now,
      random: Math.random,
      log: pino({ level: "silent" }),
    }),
    introduction: { hostname: "h", agentVersion: "0.1.0", bootId: "b", runId: "r" },
    barred: createBarredHosts(),
    commands: { take: async () => {} },
    advertise: () => "http://127.0.0.1:1",
    store,
    spool: {
      pending: async () => [],
      acknowledge: async () => {},
      onPending: () => {},
      resend: async () => ({ records: 0, throughId: "0", dropped: 0, droppedThroughMs: 0 }),
      openLeaseIds: async () => [],
      depth: () => ({ records: 0, oldestAgeSeconds: 0, bytes: 0 }),
    },
    clock: createControlClock(() => performance.now(), Date.now),
    inventory: () => ({ os: "linux", cpuCores: 2 }),
    figures: () => ({}),
    report: () => ({ generation: "0", instances: [], removed: [], weights: [] }),
    onFenced: () => {},
    onDesired: () => {},
    monotonicMs: () => performance.now(),
    // The first address first, and hardly any pause.
    random: () => 0.01,
    log: pino({ level: "debug" }, { write: (line: string) => void said.push(line) }),
  });
  served = [];
  said = [];
  running = session.run(ending.signal);
  await vi.waitFor(() => {
    expect(cutOff.sessions.count).toBe(1);
    expect(session.state().isConnected).toBe(true);
  }, patient);
});
afterEach(async () => {
  ending.abort();
  await running;
  link.heal();
  otherLink.heal();
  await Promise.all([cutOff.stop(), whole.stop()]);
  await Promise.all([link.close(), otherLink.close()]);
  rmSync(folder, { recursive: true, force: true });
});

it.each(["refused", "silent"] as const)(
  "an agent leaves a replica whose PostgreSQL is away (%s) for one that takes it, and is never without a session between",
  async (how) => {
    const before = session.nodeEpoch();
    link.cut(how);
    await vi.waitFor(() => {
      served.push(session.state().isConnected);
      expect(whole.sessions.count).toBe(1);
    }, patient);
    await vi.waitFor(() => expect(cutOff.sessions.count).toBe(0), patient);
    expect(session.nodeEpoch()).toBeGreaterThan(before);
    expect(session.state()).toMatchObject({ isConnected: true, isFenced: false });
    expect([...session.state().reconnects]).toEqual([["moved", 1]]);
    expect(served).not.toContain(false);
    // Nobody thinks that the host fell silent.
    expect(whole.alerts.filter((alert) => alert.startsWith("host_"))).toEqual([]);
  },
);

it("an agent stays connected while every replica is cut off, and needs no other after recovery", async () => {
  const epoch = session.nodeEpoch();
  for (const one of [link, otherLink]) one.cut("refused");
  await vi.waitFor(() => expect(said.join("")).toContain("does not accept the host either"), patient);
  link.heal();
  await vi.waitFor(async () => expect((await cutOff.fleetStore.seenAt()).size).toBe(1), patient);
  expect(session.nodeEpoch()).toBe(epoch);
  expect(session.state()).toMatchObject({ isConnected: true, reconnects: new Map() });
});
