import fc from "fast-check";
import pino from "pino";
import { describe, expect, it } from "vitest";
import { createGpuMeter } from "../../../../agent/metering/gpu-meter.ts";
import type { MeterStore, Tally } from "../../../../agent/metering/store.ts";
import type { Serving } from "../../../../agent/reconcile/ports.ts";
import type { DeploymentId, InstanceId } from "../../../../proto/ids.ts";
import type { UsageRecord } from "../../../../proto/usage-record.ts";

const seen = (identity = "1@boot", id = "one"): Serving => ({
  instanceId: id as InstanceId,
  deployId: "deploy" as DeploymentId,
  identity,
});
const noon = Date.UTC(2026, 0, 5, 12, 0, 0);

/** A host with two clocks that the test moves, and a disk that outlives the agent. */
function host(controlMs = noon) {
  let disk: readonly Tally[] = [];
  const records: UsageRecord[] = [];
  const store: MeterStore = {
    kept: () => disk,
    async save(open, ended) {
      disk = open;
      records.push(...ended);
    },
  };
  const clocks = { monotonicMs: 5_000_000, controlMs };
  const begin = () =>
    createGpuMeter({
      store,
      monotonicMs: () => clocks.monotonicMs,
      controlTimeMs: () => clocks.controlMs,
      nodeEpoch: () => 7n,
      log: pino({ level: "silent" }),
    });
  let meter = begin();
  return {
    clocks,
    records,
    look: (...serving: Serving[]) => meter.look(serving),
    pass(ms: number) {
      clocks.monotonicMs += ms;
      clocks.controlMs += ms;
    },
    /** Ready for so long, looked at every five seconds. */
    serve(ms: number, one = seen()) {
      for (let left = ms; left > 0; left -= 5_000) {
        this.pass(Math.min(5_000, left));
        meter.look([one]);
      }
    },
    kill() {
      meter = begin();
    },
    async stop() {
      await meter.close();
      meter = begin();
    },
    readyMs: () => records.reduce((sum, record) => sum + (record.readyMs ?? 0), 0),
  };
}

describe("GPU time", () => {
  it("is one record per instance and minute of control-plane time", () => {
    const h = host(noon + 20_000);
    h.look(seen());
    h.serve(105_000);
    expect(h.records.map((r) => [r.requestId, r.admittedAtMs, r.readyMs])).toEqual([
      [`gpu:one:${noon / 60_000}`, noon, 40_000],
      [`gpu:one:${noon / 60_000 + 1}`, noon + 60_000, 60_000],
    ]);
    expect(h.records[0]).toMatchObject({ attempt: 1, deployId: "deploy", instanceId: "one", nodeEpoch: "7" });
  });

  it("is not counted before an instance is ready, nor while it drains", () => {
    const h = host();
    h.serve(10_000, seen());
    h.pass(5_000);
    h.look();
    h.pass(120_000);
    h.look();
    // The first look found it ready: what was before that nobody saw.
    expect(h.readyMs()).toBe(5_000);
  });

  it("is not counted over a crash between two looks", () => {
    const h = host();
    h.look(seen("1@boot"));
    h.pass(5_000);
    h.look(seen("2@boot"));
    h.pass(5_000);
    h.look(seen("2@boot"));
    h.pass(60_000);
    h.look();
    expect(h.readyMs()).toBe(5_000);
  });

  it("is not counted while the agent stood still", () => {
    const h = host();
    h.look(seen());
    h.pass(61_000);
    h.look(seen());
    h.pass(60_000);
    h.look();
    expect(h.readyMs()).toBe(0);
  });

  it("survives a kill but for the last seconds, and a stop whole; the time without an agent is not counted", async () => {
    const h = host();
    h.look(seen());
    h.serve(20_000);
    h.pass(1_000);
    h.look(seen());
    h.kill();
    h.pass(8_000);
    h.look(seen());
    h.serve(10_000);
    h.pass(2_000);
    h.look(seen());
    await h.stop();
    h.pass(60_000);
    h.look(seen());
    // 20 of 21 seconds of the first life, 12 of 12 of the second, in one record of the minute they share.
    expect(h.records.map((r) => r.readyMs)).toEqual([32_000]);
  });

  it("never overlaps, shrinks or exceeds what the monotonic clock saw, whatever control-plane time does", () => {
    const step = fc.oneof(
      {
        weight: 8,
        arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: 70_000 }) }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          kind: fc.constant("step" as const),
          ms: fc.oneof(fc.integer({ min: -3_600_000, max: 3_600_000 }), fc.constantFrom(-60_000, 60_000, -1, 1)),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constantFrom("kill" as const, "drain" as const), ms: fc.constant(0) }),
      },
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 120 }), (steps) => {
        const h = host();
        let watchedMs = 0;
        h.look(seen());
        let isWatched = true;
        for (const { kind, ms } of steps) {
          if (kind === "step") h.clocks.controlMs += ms;
          else if (kind === "kill") {
            h.kill();
            isWatched = false;
          } else if (kind === "drain") {
            h.look();
            isWatched = false;
          } else {
            h.pass(ms);
            if (isWatched) watchedMs += ms;
            h.look(seen());
            isWatched = true;
          }
        }
        const minutes = new Map<string, number>();
        for (const { requestId = "", readyMs = 0, admittedAtMs, endedAtMs } of h.records) {
          expect(readyMs).toBeGreaterThan(0);
          expect(readyMs).toBeLessThanOrEqual(60_000);
          expect(Number(admittedAtMs) % 60_000).toBe(0);
          expect(Number(endedAtMs)).toBeGreaterThan(Number(admittedAtMs));
          expect(Number(endedAtMs)).toBeLessThanOrEqual(Number(admittedAtMs) + 60_000);
          // What the control plane takes: the first record of a name.
          if (!minutes.has(requestId)) minutes.set(requestId, readyMs);
        }
        const billed = [...minutes.values()].reduce((sum, ms) => sum + ms, 0);
        expect(billed).toBeLessThanOrEqual(watchedMs);
      }),
      { numRuns: 300 },
    );
  });

  it("loses nothing while clocks only run", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 60_000 }), { minLength: 1, maxLength: 100 }),
        fc.integer({ min: 0, max: 59_999 }),
        (spans, offset) => {
          const h = host(noon + offset);
          h.look(seen());
          for (const ms of spans) {
            h.pass(ms);
            h.look(seen());
          }
          h.look();
          h.pass(60_000);
          h.look();
          expect(h.readyMs()).toBe(spans.reduce((sum, ms) => sum + ms, 0));
          expect(new Set(h.records.map((r) => r.requestId)).size).toBe(h.records.length);
        },
      ),
      { numRuns: 100 },
    );
  });
});
