import { describe, expect, it } from "vitest";
import type { PlacedInstance } from "../../../../control-plane/deployments/deployment.ts";
import { type HostTimes, nextDueMs } from "../../../../control-plane/deployments/timers.ts";
import type { HostId } from "../../../../proto/ids.ts";
import { placedInstance as i } from "../../../fakes/fleet-records.ts";
import { deployment } from "../../../fakes/ports.ts";

const nowMs = 1_000_000;
const on = (hostId: string, over: Partial<PlacedInstance> = {}) =>
  i(hostId, { phase: "ready", hostId: hostId as HostId, ...over });
const hosts = (lost: Record<string, number> = {}, due: Record<string, number> = {}): HostTimes => ({
  untilLostMs: (host) => lost[host],
  untilDueMs: (host) => due[host],
});
const inMs = (instances: readonly PlacedInstance[], times = hosts(), over: Parameters<typeof deployment>[0] = {}) => {
  const at = nextDueMs(deployment({ kind: "model", status: "deployed", ...over }), instances, times, nowMs);
  return at === undefined ? undefined : at - nowMs;
};

describe("the next timer of a deployment", () => {
  it("is none if it is stable, on live hosts that are not being drained", () => {
    expect(inMs([on("a"), on("b")])).toBeUndefined();
    expect(inMs([], hosts({ a: 5 }, { a: 5 }), { target: 0, minInstances: 0 })).toBeUndefined();
  });

  it("is the soonest of the loss of a silent host and the deadline of a drain", () => {
    expect(inMs([on("a"), on("b")], hosts({ a: 40_000 }))).toBe(40_000);
    expect(inMs([on("a"), on("b")], hosts({ a: 40_000 }, { b: 7_000 }))).toBe(7_000);
  });

  it("is never in the past: the check that finds it acts", () => {
    expect(inMs([on("a")], hosts({}, { a: -3 }))).toBeUndefined();
    expect(inMs([on("a"), on("b")], hosts({}, { a: 0, b: 9 }))).toBe(9);
  });

  it("ignores instances bound to their host, and copies being removed", () => {
    expect(inMs([on("a")], hosts({ a: 5 }, { a: 5 }), { kind: "container" })).toBeUndefined();
    expect(inMs([on("a", { isTombstoned: true })], hosts({ a: 5 }, { a: 5 }))).toBeUndefined();
  });

  it("is the end of a stop whose last host is silent", () => {
    expect(inMs([on("a", { isTombstoned: true })], hosts({ a: 5 }), { status: "stopping" })).toBe(5);
  });

  it("is the end of the back-off before replacing a failed instance beside a serving one", () => {
    const both = [on("a"), on("b", { phase: "failed" })];
    const paused = { replacements: 2, replacedAtMs: nowMs - 5_000 };
    expect(inMs(both, hosts(), paused)).toBe(15_000);
    expect(inMs(both, hosts(), { replacements: 2, replacedAtMs: nowMs - 20_000 })).toBeUndefined();
    // Without one that serves beside it nothing is replaced after a pause.
    expect(inMs([on("b", { phase: "failed" })], hosts(), paused)).toBeUndefined();
  });
});
