import { describe, expect, it } from "vitest";
import { drainLeftMs, untilDrained } from "../../../../agent/reconcile/drain.ts";
import type { InstanceId } from "../../../../proto/ids.ts";

/** Requests that never end, on a clock of their own. */
function world() {
  const state = { nowMs: 0, emptiedByMs: "0", moved: ["i1"] };
  const drain = (mayEnd: () => boolean = () => false) =>
    untilDrained(
      {
        clock: () => state.nowMs,
        drainLeft: (id, forMs) => drainLeftMs(state, id, 30_000, forMs, () => 1_000_000 + state.nowMs),
        dataPath: {
          drained: async (_id, ms) => {
            state.nowMs += ms;
            return mayEnd();
          },
        },
      },
      "i1" as InstanceId,
      new AbortController().signal,
    );
  return Object.assign(state, { drain });
}

describe("the drain of an instance", () => {
  it("takes the host's own time by default, and no longer than its requests", async () => {
    const w = world();
    await w.drain();
    expect(w.nowMs).toBe(30_000);
    const quick = world();
    await quick.drain(() => quick.nowMs >= 2_000);
    expect(quick.nowMs).toBe(2_000);
  });

  it("ends at the host's drain deadline, whether earlier or later than its own time", async () => {
    const w = Object.assign(world(), { emptiedByMs: "1002500" });
    await w.drain();
    expect(w.nowMs).toBe(2_500);
    const patient = Object.assign(world(), { emptiedByMs: "1100000" });
    await patient.drain();
    expect(patient.nowMs).toBe(100_000);
  });

  it("takes at most the host's own time if its owner stopped it, whatever the host's drain deadline", async () => {
    const w = Object.assign(world(), { emptiedByMs: "605800000", moved: [] });
    await w.drain();
    expect(w.nowMs).toBe(30_000);
  });

  it("ends at once when the operator shortens the deadline", async () => {
    const w = Object.assign(world(), { emptiedByMs: "1600000" });
    await w.drain(() => {
      if (w.nowMs >= 5_000) w.emptiedByMs = "1000001";
      return false;
    });
    expect(w.nowMs).toBe(5_000);
  });

  it("has no deadline in the state of an older agent", () => {
    const old = {} as { emptiedByMs: string; moved: string[] };
    expect(drainLeftMs(old, "i1" as InstanceId, 30_000, 1_000, () => 5)).toBe(29_000);
  });
});
