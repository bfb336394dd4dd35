// The agent's session over real gRPC: what is obeyed, what is refused, what outlasts a connection.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBarredHosts } from "../../../agent/session/barred-hosts.ts";
import { createControlClock } from "../../../agent/session/control-clock.ts";
import { Identity } from "../../../agent/session/identity.ts";
import { type HostInstances, Session } from "../../../agent/session/session.ts";
import type { SessionStore } from "../../../agent/session/store.ts";
import type { DesiredState__Output } from "../../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { HostId } from "../../../proto/ids.ts";
import { type FakeControlPlane, startFakeControlPlane } from "../../fakes/control-plane-session.ts";
import { instanceSpec } from "../../fakes/instance-spec.ts";
import { spooled } from "../../fakes/usage-record.ts";

const patient = { timeout: 30_000, interval: 50 };

describe("an agent's session", () => {
  let plane: FakeControlPlane;
  let folder: string;
  let kept: DesiredState__Output | undefined;
  let highest: bigint;
  let fenced: string;
  let fences: boolean[];
  let obeyed: DesiredState__Output[];
  let toSend: string[];
  let told: HostInstances | undefined;
  let alerts: string[];
  let warnings: string[];
  let ending: AbortController;
  let running: Promise<void>;
  let session: Session;

  const store: SessionStore = {
    hostId: () => "host-of-a-test" as HostId,
    highestEpoch: () => highest,
    desired: () => kept,
    async save(desired) {
      kept = desired;
      await store.sawEpoch(BigInt(desired.nodeEpoch));
    },
    async sawEpoch(epoch) {
      if (epoch > highest) highest = epoch;
    },
    fencedWhy: () => fenced,
    restoreMark: () => "",
    sawRestoreMark: async () => {},
    async sawFenced(why) {
      fenced = why;
    },
  };
  const start = (token = plane.joinToken) => {
    ending = new AbortController();
    session = new Session({
      addresses: [plane.address],
      identity: new Identity({
        folder,
        hostId: "host-of-a-test",
        hostname: "h",
        addresses: [plane.address],
        readToken: async () => token,
        nowMs: Date.now,
        random: Math.random,
        log: pino({ level: "silent" }),
      }),
      introduction: { hostname: "h", agentVersion: "1", bootId: "b", runId: "r" },
      barred: createBarredHosts(),
      commands: { take: async () => {} },
      advertise: () => "http://127.0.0.1:9100",
      store,
      spool: {
        pending: async (limit) => toSend.slice(0, limit).map((id) => spooled(id)),
        acknowledge: async (gone) => {
          toSend = toSend.filter((id) => !gone.includes(id));
        },
        onPending: () => {},
        resend: async () => ({ records: 0, throughId: "0", dropped: 0, droppedThroughMs: 0 }),
        openLeaseIds: async () => ["lease-1"],
        depth: () => ({ records: toSend.length, oldestAgeSeconds: 0, bytes: 0 }),
      },
      clock: createControlClock(() => performance.now(), Date.now),
      inventory: () => ({ os: "linux", cpuCores: 2 }),
      figures: () => ({}),
      report: () => told,
      onDesired: (desired) => void obeyed.push(desired),
      onFenced: (isFenced) => void fences.push(isFenced),
      monotonicMs: () => performance.now(),
      // Reconnects at once, so that a test need not wait.
      random: () => 0.01,
      log: pino(
        { level: "warn" },
        { write: (line: string) => void (JSON.parse(line).level < 50 ? warnings : alerts).push(line) },
      ),
    });
    running = session.run(ending.signal);
  };

  beforeEach(async () => {
    plane = await startFakeControlPlane();
    folder = mkdtempSync(join(tmpdir(), "stoker-identity-"));
    kept = undefined;
    highest = 0n;
    fenced = "";
    fences = [];
    obeyed = [];
    warnings = [];
    toSend = [];
    alerts = [];
    told = { generation: "0", instances: [], removed: [], weights: [] };
  });
  afterEach(async () => {
    ending.abort();
    await running;
    await plane.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("introduces the host and renews its lease", async () => {
    start();
    await expect.poll(() => plane.renewals, patient).toBeGreaterThan(2);
    expect(plane.hellos[0]).toMatchObject({
      hostId: "host-of-a-test",
      advertise: "http://127.0.0.1:9100",
      inventory: { os: "linux" },
    });
    expect(session.state()).toMatchObject({ isConnected: true, nodeEpoch: 1n });
    expect(session.state().leaseRemainingSeconds).toBeGreaterThan(15);
  });

  it("keeps a desired state before it is obeyed, and reports what it holds", async () => {
    start();
    await expect.poll(() => plane.isConnected, patient).toBe(true);
    plane.want({ generation: "7", instances: [instanceSpec()] });
    await expect.poll(() => obeyed.length, patient).toBe(1);
    expect(kept?.instances[0]).toMatchObject({ instanceId: "instance-1", maxBatchSize: 4 });
    told = {
      generation: "7",
      instances: [{ instanceId: "instance-1", phase: "ready" }],
      removed: ["gone"],
      weights: [],
    };
    session.reportSoon();
    await expect.poll(() => plane.reports.at(-1)?.generation, patient).toBe("7");
    expect(plane.reports.at(-1)).toMatchObject({
      removed: ["gone"],
      weights: [],
      openLeaseIds: ["lease-1"],
      inventory: null,
      instances: [{ instanceId: "instance-1", phase: "ready" }],
    });
  });

  it("refuses an older generation with an alert and obeys the newest", async () => {
    start();
    await expect.poll(() => plane.isConnected, patient).toBe(true);
    plane.want({ generation: "7" });
    plane.want({ generation: "6" });
    plane.want({ generation: "8" });
    await expect.poll(() => obeyed.map((one) => one.generation), patient).toEqual(["7", "8"]);
    expect(alerts.join()).toContain("older_generation");
  });

  it("obeys nothing of a control plane older than one obeyed before, and stays connected to it", async () => {
    highest = 9n;
    plane.nodeEpoch = 3n;
    start();
    await expect.poll(() => plane.isConnected, patient).toBe(true);
    plane.want({ generation: "50" });
    await expect.poll(() => alerts.join(), patient).toContain("rejected_epoch");
    expect(obeyed).toEqual([]);
    expect(highest).toBe(9n);
    expect(plane.hellos[0]?.highestEpoch).toBe("9");
    expect(plane.isConnected).toBe(true);
  });

  it("comes back after a cut with the same identity and takes the tickets of both epochs", async () => {
    start();
    await expect.poll(() => session.state().nodeEpoch, patient).toBe(1n);
    plane.nodeEpoch = 2n;
    plane.ticketKey = Buffer.alloc(32, 2);
    plane.cut();
    await expect.poll(() => session.state().nodeEpoch, patient).toBe(2n);
    expect(session.keys()).toEqual([Buffer.alloc(32, 2), Buffer.alloc(32, 1)]);
    expect(plane.hellos.map((hello) => hello.hostId)).toEqual(["host-of-a-test", "host-of-a-test"]);
    expect(plane.hellos[1]?.highestEpoch).toBe("1");
  });

  it("spreads its first attempt to come back over what the control plane says, which grows with the fleet", async () => {
    plane.reconnectSpreadMs = 12_000;
    start();
    await expect.poll(() => session.state().isConnected, patient).toBe(true);
    plane.cut();
    await expect.poll(() => warnings.map((line) => JSON.parse(line).retryInMs), patient).toEqual([120]);
  });

  it("keeps keys, epoch and desired state while nobody answers, and comes back when somebody does", async () => {
    start();
    await expect.poll(() => plane.isConnected, patient).toBe(true);
    plane.want({ generation: "1" });
    await expect.poll(() => obeyed.length, patient).toBe(1);
    await plane.close();
    await expect.poll(() => session.state().isConnected, patient).toBe(false);
    expect(session.keys()).toHaveLength(1);
    expect(session.nodeEpoch()).toBe(1n);
    plane.nodeEpoch = 2n;
    await plane.listen();
    await expect.poll(() => session.state().nodeEpoch, patient).toBe(2n);
    expect(plane.hellos.at(-1)?.generation).toBe("1");
  });

  it("ends an attempt at its first failure, so that the pauses between attempts alone decide when it comes back", async () => {
    start();
    await expect.poll(() => plane.isConnected, patient).toBe(true);
    await plane.close();
    // Pauses of a hundredth second and more; the channel's own begin with a whole one.
    await expect.poll(() => session.state().reconnects.get("unreachable") ?? 0, patient).toBeGreaterThan(2);
    expect(warnings.some((line) => JSON.parse(line).why.includes("ECONNREFUSED"))).toBe(true);
    await plane.listen();
    await expect.poll(() => plane.isConnected, patient).toBe(true);
  });

  it("sends usage until it is acknowledged, over connections", async () => {
    toSend = ["1", "2", "3"];
    plane.acknowledges = false;
    start();
    await expect.poll(() => plane.usage.map((record) => String(record.spoolId)), patient).toEqual(["1", "2", "3"]);
    expect(toSend).toHaveLength(3);
    plane.acknowledges = true;
    plane.cut();
    await expect.poll(() => toSend, patient).toEqual([]);
    expect(plane.usage.map((record) => String(record.spoolId))).toEqual(["1", "2", "3", "1", "2", "3"]);
  });

  it("takes no ticket any more once another agent came in its place, until it is taken again", async () => {
    start();
    await expect.poll(() => session.keys().length, patient).toBe(1);
    plane.fences = true;
    plane.cut();
    await expect.poll(() => session.state().isFenced, patient).toBe(true);
    expect(session.keys()).toEqual([]);
    expect(alerts.join()).toContain("so this one is fenced");
    await expect.poll(() => warnings.join(), patient).toContain("nothing is served or started here");
    expect(warnings.join()).not.toContain("goes on being served");
    expect(fences.at(-1)).toBe(true);
    expect(fenced).toContain("registered later");
    plane.fences = false;
    await expect.poll(() => session.keys().length, patient).toBe(1);
    expect(session.state().isFenced).toBe(false);
    expect(fences.at(-1)).toBe(false);
    expect(fenced).toBe("");
  });

  it("is fenced from its first moment when its last life was", async () => {
    fenced = "the certificate was revoked";
    plane.fences = true;
    start();
    expect(session.state()).toMatchObject({ isFenced: true, fencedWhy: "the certificate was revoked" });
    await expect.poll(() => session.state().reconnects.get("fenced") ?? 0, patient).toBeGreaterThan(0);
    expect(session.state()).toMatchObject({ isFenced: true, hasKeys: false });
    expect(fences).not.toContain(false);
  });

  it("says when the join token is wrong, and goes on trying", async () => {
    start(plane.joinToken.replace("secret", "another"));
    await expect.poll(() => session.state().reconnects.get("refused") ?? 0, patient).toBeGreaterThan(1);
    expect(plane.hellos).toEqual([]);
  });
});
