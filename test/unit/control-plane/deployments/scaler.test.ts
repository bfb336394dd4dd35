import pino from "pino";
import { describe, expect, it } from "vitest";
import { createScaler } from "../../../../control-plane/deployments/scaler.ts";
import type { Change, Deployment, Instance } from "../../../../control-plane/deployments/store.ts";
import type { AgedLive, InstanceLive } from "../../../../control-plane/fleet/live.ts";
import type { HostId } from "../../../../proto/ids.ts";
import { hostNode, placedInstance } from "../../../fakes/fleet-records.ts";
import { deployment } from "../../../fakes/ports.ts";

function world(over: Partial<Deployment> = {}) {
  const state = {
    deployment: deployment({ minInstances: 0, maxInstances: 3, maxBatchSize: 10, ...over }),
    instances: [placedInstance("i1", { phase: "ready", hostId: "h1" as HostId })] as Instance[],
    figures: { inFlight: 0, waiting: 0, finished: 0 } as Partial<InstanceLive> | undefined,
    ageMs: 0,
    funds: null as bigint | null,
    nowMs: 0,
    moves: [] as (number | undefined)[],
    notes: 0,
    wakes: 0,
  };
  const live = (): AgedLive => ({
    ageMs: state.ageMs,
    live: {
      ...(hostNode.figures as AgedLive).live,
      instances: state.instances.map(
        (one) => ({ instanceId: one.id, deployId: one.deployId, ...state.figures }) as InstanceLive,
      ),
    },
  });
  const start = () =>
    createScaler({
      store: {
        active: async () => [{ deployment: state.deployment, instances: state.instances, claimedUntilMs: 0 }],
        change: async (_id, _account, ifRevision: bigint, change: Change) => {
          expect(ifRevision).toBe(state.deployment.revision);
          state.moves.push(change.target);
          state.deployment = {
            ...state.deployment,
            target: change.target ?? 1,
            revision: state.deployment.revision + 1n,
          };
          return true;
        },
        wake: async () => {
          state.wakes += 1;
        },
        noteUse: async (ids) => {
          expect(ids).toEqual([state.deployment.id]);
          state.notes += 1;
          state.deployment = { ...state.deployment, usedAtMs: state.nowMs };
        },
      },
      live: async () => new Map(state.figures ? [["h1" as HostId, live()]] : []),
      funds: async () => state.funds,
      firstMinutes: async (_gpu, _gpus, count) => 100n * BigInt(count),
      log: pino({ level: "silent" }),
      clock: () => state.nowMs,
      unixMs: () => state.nowMs,
    });
  let scaler = start();
  return Object.assign(state, {
    restart() {
      scaler = start();
    },
    async last(ms: number) {
      for (const endMs = state.nowMs + ms; state.nowMs < endMs; ) {
        state.nowMs += 5_000;
        await scaler.pass();
      }
    },
  });
}

describe("the scaler", () => {
  it("adds instances for running and waiting load, if they are paid for", async () => {
    const w = world();
    w.figures = { inFlight: 10, waiting: 12, finished: 0 };
    w.funds = 150n;
    await w.last(30_000);
    expect(w.moves).toEqual([]);
    w.funds = 200n;
    await w.last(5_000);
    expect(w.moves).toEqual([3]);
  });

  it("wakes an instance that sleeps before it adds one", async () => {
    const w = world({ minInstances: 1, target: 2 });
    const asleep = placedInstance("i2", { phase: "asleep", hostId: "h1" as HostId });
    w.instances = [...w.instances, asleep];
    w.figures = { inFlight: 5, waiting: 0, finished: 0 };
    await w.last(30_000);
    expect([w.wakes, w.moves]).toEqual([0, []]);
    w.figures = { inFlight: 10, waiting: 20, finished: 0 };
    await w.last(15_000);
    expect(w.wakes).toBeGreaterThan(0);
    expect(w.moves).toEqual([]);
    w.instances = w.instances.map((one) => ({ ...one, phase: "ready" }));
    await w.last(15_000);
    expect(w.moves).toEqual([3]);
  });

  it("adds an instance while agents report a longer time to the first token than the target", async () => {
    const w = world({ scaling: { targetTtftMs: 1_000 } });
    w.figures = { inFlight: 1, waiting: 0, finished: 0, ttftP95Ms: 900 };
    await w.last(30_000);
    expect(w.moves).toEqual([]);
    w.figures = { ...w.figures, ttftP95Ms: 1_100 };
    await w.last(15_000);
    expect(w.moves).toEqual([2]);
    // An older agent reports none.
    const older = world({ scaling: { targetTtftMs: 1_000 } });
    older.figures = { inFlight: 1, waiting: 0, finished: 0 };
    await older.last(60_000);
    expect(older.moves).toEqual([]);
  });

  it("wakes a sleeping deployment for a schedule, as early as its last start took", async () => {
    // 1970-01-01, a Thursday.
    const schedule = { days: ["thu"], from: "00:05", to: "00:10", timeZone: "UTC", minInstances: 2 } as const;
    const w = world({ target: 0, startMs: 60_000, scaling: { schedules: [schedule] } });
    await w.last(235_000);
    expect(w.moves).toEqual([]);
    await w.last(5_000);
    expect(w.moves).toEqual([2]);
    expect(w.nowMs).toBe(240_000);
    await w.last(355_000);
    expect(w.moves).toEqual([2]);
    // Five calm minutes have passed already.
    await w.last(5_000);
    expect(w.moves).toEqual([2, 1]);
  });

  it("counts rejected requests, up to the capacity of the existing instances", async () => {
    const w = world({ maxInstances: 10 });
    // 8 run and 8 wait: two instances' worth; half as many as ended found no place.
    for (let n = 1; n <= 4; n++) {
      w.figures = { inFlight: 8, waiting: 8, finished: 10 * n, turnedAway: 5 * n };
      await w.last(5_000);
    }
    expect(w.moves).toEqual([2, 3]);
    for (let n = 5; n <= 8; n++) {
      w.figures = { inFlight: 8, waiting: 8, finished: 10 * n, turnedAway: 1_000 * n };
      await w.last(5_000);
    }
    expect(w.moves).toEqual([2, 3, 4]);
  });

  it("puts a deployment to sleep after its idle time without requests; requests between two checks count", async () => {
    const w = world({ inactiveShutdown: 60 });
    for (let n = 1; n <= 5; n++) {
      w.figures = { inFlight: 0, waiting: 0, finished: n };
      await w.last(50_000);
    }
    expect(w.moves).toEqual([]);
    await w.last(20_000);
    expect(w.moves).toEqual([0]);
  });

  it("counts waiting requests as use, and instances without a report as busy", async () => {
    const waiting = world({ inactiveShutdown: 60 });
    for (let n = 0; n < 20; n++) {
      waiting.deployment = { ...waiting.deployment, awaitedAtMs: waiting.nowMs };
      await waiting.last(5_000);
    }
    expect(waiting.moves).toEqual([]);

    const silent = world({ inactiveShutdown: 60 });
    silent.ageMs = 60_000;
    await silent.last(200_000);
    expect(silent.moves).toEqual([]);
  });

  it("counts idle time over restarts, which neither shorten nor reset it", async () => {
    const w = world({ inactiveShutdown: 60, updatedAtMs: 0 });
    w.figures = { inFlight: 1, waiting: 0, finished: 0 };
    await w.last(100_000);
    expect(w.notes).toBe(10);
    w.figures = { inFlight: 0, waiting: 0, finished: 1 };
    for (let n = 0; n < 5; n++) {
      await w.last(5_000);
      w.restart();
      // Its host has not come back yet.
      w.ageMs = 60_000;
      await w.last(5_000);
      w.ageMs = 0;
    }
    expect(w.moves).toEqual([]);
    await w.last(20_000);
    expect(w.moves).toEqual([0]);
    // Only what is in use is written.
    expect(w.notes).toBe(11);
  });

  it("puts nothing to sleep before observing its whole idle time, including use between two checks", async () => {
    // No control plane ran for an hour, or the one before it did not note use.
    const w = world({ inactiveShutdown: 60, updatedAtMs: 0 });
    w.nowMs = 3_600_000;
    w.figures = { inFlight: 0, waiting: 0, finished: 0 };
    w.ageMs = 60_000;
    await w.last(5_000);
    w.ageMs = 0;
    await w.last(60_000);
    expect(w.moves).toEqual([]);
    await w.last(5_000);
    expect(w.moves).toEqual([0]);

    // Idle for all but its last seconds by its row, and in use between looks, which see each report twice.
    const busy = world({ inactiveShutdown: 60, updatedAtMs: 0 });
    busy.nowMs = 50_000;
    for (let n = 1; n <= 10; n++) {
      busy.figures = { inFlight: 0, waiting: 0, finished: 25 * n };
      await busy.last(10_000);
    }
    expect(busy.moves).toEqual([]);
  });

  it("does not count the time stopped as idle time of a restarted deployment", async () => {
    const w = world({ inactiveShutdown: 60, usedAtMs: 1_000 });
    w.nowMs = 3_600_000;
    w.deployment = { ...w.deployment, updatedAtMs: w.nowMs };
    await w.last(55_000);
    expect(w.moves).toEqual([]);
    await w.last(10_000);
    expect(w.moves).toEqual([0]);
  });

  it("removes nothing during an update", async () => {
    const w = world({ status: "updating", inactiveShutdown: 60 });
    await w.last(120_000);
    expect(w.moves).toEqual([]);
    w.deployment = { ...w.deployment, status: "deployed" };
    await w.last(5_000);
    expect(w.moves).toEqual([0]);
  });
});
