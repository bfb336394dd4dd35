import { expect, it } from "vitest";
import {
  type FaultName,
  isWide,
  kindOf,
  kinds,
  lastSeed,
  mayHaveRedis,
  type Need,
  schedule,
  shortSeed,
} from "../../chaos/seeds/schedule.ts";

/** Parts of the world of a seed on a machine that has everything. */
const hasOf = (seed: number) =>
  new Set<Need>([
    "small-disk",
    mayHaveRedis(seed) ? "redis" : "job-tables",
    ...(isWide(seed) ? (["docker", "points"] as const) : []),
  ]);
const seeds = Array.from({ length: lastSeed }, (_, i) => i + 1);

it("is the same for a seed, and another one for the next", () => {
  expect(schedule(7, hasOf(7))).toEqual(schedule(7, hasOf(7)));
  expect(schedule(7, hasOf(7))).not.toEqual(schedule(8, hasOf(8)));
});

it("has every fault in the seeds of a night", () => {
  const happened = new Set(seeds.flatMap((seed) => schedule(seed, hasOf(seed))).map(({ fault }) => fault));
  expect([...happened].toSorted()).toEqual(Object.keys(kinds).toSorted());
});

it("does nothing to a process while something else is done to it, and combines no faults whose combination is not promised", () => {
  for (const seed of seeds) {
    const events = schedule(seed, hasOf(seed));
    expect(events).toHaveLength(30);
    for (const [i, one] of events.entries())
      for (const other of events.slice(i + 1)) {
        if (one.target === other.target) expect(other.atMs).toBeGreaterThan(one.atMs + one.ms);
        expect(kindOf(one.fault).never ?? []).not.toContain(other.fault);
        expect(kindOf(other.fault).never ?? []).not.toContain(one.fault);
      }
  }
});

it("leaves out what this machine cannot do", () => {
  const without = new Set(seeds.flatMap((seed) => schedule(seed, new Set())).map(({ fault }) => fault));
  for (const name of ["kill-redis", "empty-redis", "fill-disk"] satisfies FaultName[])
    expect(without).not.toContain(name);
});

it("kills each kind of process in the seed of every change", () => {
  const faults = schedule(shortSeed, hasOf(shortSeed)).map(({ fault }) => fault);
  expect(faults).toEqual(expect.arrayContaining(["kill-control-plane", "kill-agent", "kill-postgres", "kill-redis"]));
});
