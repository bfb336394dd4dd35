import type { V1Lease } from "@kubernetes/client-node";
import pino from "pino";
import { describe, expect, it } from "vitest";
import { AgentLease, leaseSeconds } from "../../../../agent/kubernetes/agent-lease.ts";
import { faultOf } from "../../../../agent/kubernetes/api-fault.ts";

const signal = AbortSignal.timeout(60_000);
const answer = (code: number) => Object.assign(new Error(String(code)), { code });

/** One lease as the API server keeps it: a write names the version it saw. */
function oneLease() {
  let kept: V1Lease | undefined;
  let version = 0;
  const keep = ({ body }: { body: V1Lease }) => {
    kept = { ...body, metadata: { ...body.metadata, resourceVersion: String(++version) } };
    return kept;
  };
  const coordination = {
    async readNamespacedLease() {
      if (!kept) throw answer(404);
      return kept;
    },
    async createNamespacedLease(what: { body: V1Lease }) {
      if (kept) throw answer(409);
      return keep(what);
    },
    async replaceNamespacedLease(what: { body: V1Lease }) {
      if (what.body.metadata?.resourceVersion !== kept?.metadata?.resourceVersion) throw answer(409);
      return keep(what);
    },
  };
  const limits: (number | undefined)[] = [];
  const call = (_: AbortSignal, work: (options: object) => Promise<unknown>, limitMs?: number) => {
    limits.push(limitMs);
    return work({}).catch((error: unknown) => {
      throw faultOf(error);
    });
  };
  /** As somebody may who has rights on leases. */
  const prolong = (leaseDurationSeconds: number) => {
    if (kept) keep({ body: { ...kept, spec: { ...kept.spec, leaseDurationSeconds } } });
  };
  return {
    limits,
    prolong,
    holder: () => kept?.spec?.holderIdentity,
    cluster: { coordination, namespace: "n", call } as never,
  };
}

describe("the lease of an agent", () => {
  const clock = { nowMs: 0 };
  const agents = (lease = oneLease()) => {
    const make = (holder: string) =>
      new AgentLease({
        cluster: lease.cluster,
        name: "l",
        holder,
        log: pino({ level: "silent" }),
        clock: () => clock.nowMs,
      });
    return { lease, first: make("first"), second: make("second") };
  };

  it("is held by one of two, and passes on once it did not change for its duration, by the clock of the one that waits", async () => {
    const { first, second } = agents();
    await first.require(signal);
    await expect(second.require(signal)).rejects.toMatchObject({ code: "engine_away", retryable: true });
    clock.nowMs += leaseSeconds * 1000 - 1;
    await expect(second.require(signal)).rejects.toThrow("Another agent of this name (first)");
    clock.nowMs += 1;
    expect(first.isHeld).toBe(false);
    await second.require(signal);
    await expect(first.require(signal)).rejects.toThrow();
  });

  it("stays with an agent that renews it", async () => {
    const { first, second } = agents();
    await first.renew(signal);
    for (let turn = 0; turn < 10; turn++) {
      clock.nowMs += (leaseSeconds * 1000) / 2;
      expect(await first.renew(signal)).toBe(true);
      expect(await second.renew(signal)).toBe(false);
    }
  });

  it("counts as held for less time than others wait", async () => {
    const { first } = agents();
    await first.renew(signal);
    clock.nowMs += (leaseSeconds - 10) * 1000;
    expect(first.isHeld).toBe(false);
  });

  it("ends each change before others may have it", async () => {
    const { lease, first, second } = agents();
    expect(await first.change(signal, async () => "made")).toBe("made");
    const [heldMs, othersMs] = [(leaseSeconds - 10) * 1000, leaseSeconds * 1000];
    for (const passedMs of [0, heldMs - 1]) {
      clock.nowMs += passedMs;
      await first.change(signal, async () => {});
      const limitMs = lease.limits.at(-1) ?? Number.POSITIVE_INFINITY;
      expect(limitMs).toBeGreaterThan(0);
      expect(passedMs + limitMs).toBeLessThan(othersMs);
    }
    let changes = 0;
    await expect(second.change(signal, async () => ++changes)).rejects.toMatchObject({ code: "engine_away" });
    expect(changes).toBe(0);
  });

  it("passes on after its usual duration, whatever duration somebody wrote into it", async () => {
    const { lease, first, second } = agents();
    await first.require(signal);
    lease.prolong(1_000_000_000);
    await expect(second.require(signal)).rejects.toThrow();
    clock.nowMs += leaseSeconds * 1000;
    await second.require(signal);
  });

  it("passes on at once when its holder ends", async () => {
    const { lease, first, second } = agents();
    await first.require(signal);
    await first.release(signal);
    expect(lease.holder()).toBe("");
    expect(first.isHeld).toBe(false);
    await second.require(signal);
  });
});
