import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { diff, type Step } from "../../../../agent/reconcile/diff.ts";
import type { Observed } from "../../../../agent/reconcile/driver.ts";
import { type Facts, freshFacts, sighted, type View } from "../../../../agent/reconcile/facts.ts";
import type { InstanceSpec__Output } from "../../../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../../../proto/ids.ts";
import { instanceSpec, sighting } from "../../../fakes/instance-spec.ts";

const id = "instance-1" as InstanceId;
const nowMs = 1_000_000;

interface Given {
  readonly specs?: readonly InstanceSpec__Output[];
  readonly tombstones?: readonly string[];
  readonly observed?: readonly Observed[];
  readonly facts?: Partial<Facts>;
  readonly isTold?: boolean;
  readonly isHeld?: boolean;
}

function view({ specs = [], tombstones = [], observed = [], facts = {}, isTold = true, isHeld = false }: Given): View {
  const ids = new Set([...specs.map((s) => s.instanceId), ...tombstones, ...observed.map((o) => o.instanceId)]);
  return {
    desired: isTold ? { generation: "1", instances: [...specs], tombstones: [...tombstones] } : undefined,
    observed: new Map(observed.map((one) => [one.instanceId, one])),
    facts: new Map(
      [...ids].map((one) => {
        const seen = observed.find((o) => o.instanceId === one);
        const generation = Number(specs.find((s) => s.instanceId === one)?.generation ?? seen?.generation ?? 1);
        const fresh = freshFacts(generation, 0);
        return [one as InstanceId, { ...(seen ? sighted(fresh, seen, nowMs) : fresh), ...facts }];
      }),
    ),
    unsettled: new Set(),
    uses: new Map(),
    controlTimeMs: 0,
    minAwakeMs: 0,
    isHeld,
    nowMs,
  };
}

const kinds = (given: Given) => diff(view(given)).map((step) => step.kind);
const here = { kind: "here", modelPath: "/models/m.gguf" } as const;

describe("a desired instance that does not exist", () => {
  it("gets its weights first", () => expect(kinds({ specs: [instanceSpec()] })).toEqual(["fetch"]));
  it("is started once they are here", () =>
    expect(kinds({ specs: [instanceSpec()], facts: { weights: here } })).toEqual(["start"]));
  it("needs no weights when it already runs elsewhere", () =>
    expect(kinds({ specs: [instanceSpec({ engine: "external" })] })).toEqual(["start"]));
  it("waits for its back-off", () =>
    expect(kinds({ specs: [instanceSpec()], facts: { notBeforeMs: nowMs + 1 } })).toEqual([]));
  it("is not started again once it failed terminally", () =>
    expect(kinds({ specs: [instanceSpec()], facts: { failure: { code: "exit_1", message: "" } } })).toEqual([]));
  it("gets no second step while one runs", () =>
    expect(kinds({ specs: [instanceSpec()], facts: { busy: { kind: "fetch", generation: 1 } } })).toEqual([]));
  it("cancels the download of a generation that is no longer desired", () =>
    expect(
      kinds({ specs: [instanceSpec({ generation: "2" })], facts: { busy: { kind: "fetch", generation: 1 } } }),
    ).toEqual(["cancel"]));
});

describe("an instance that falls asleep or wakes", () => {
  const observed = [sighting("running")];
  it.each(["sleep", "wake"])("ends its %s when it is removed or a newer generation replaces it", (kind) => {
    const facts = { busy: { kind, generation: 1 } };
    expect(kinds({ tombstones: [id], observed, facts })).toEqual(["cancel"]);
    expect(kinds({ specs: [instanceSpec({ generation: "2" })], observed, facts })).toEqual(["cancel"]);
    expect(kinds({ specs: [instanceSpec()], observed, facts })).toEqual([]);
  });
});

describe("a desired instance of a fenced agent", () => {
  const specs = [instanceSpec()];
  it("is neither fetched nor started, and work on it ends", () => {
    expect(kinds({ specs, isHeld: true })).toEqual([]);
    expect(kinds({ specs, isHeld: true, facts: { weights: here } })).toEqual([]);
    for (const kind of ["fetch", "start"] as const)
      expect(kinds({ specs, isHeld: true, facts: { busy: { kind, generation: 1 } } })).toEqual(["cancel"]);
  });
  it("is unchanged while it runs, and not started again once it ended", () => {
    expect(kinds({ specs, isHeld: true, observed: [sighting("running")] })).toEqual(["probe"]);
    expect(kinds({ specs, isHeld: true, observed: [sighting("exited")], facts: { weights: here } })).toEqual([]);
  });
});

describe("a desired instance that runs", () => {
  const specs = [instanceSpec()];
  it("is probed when due and otherwise unchanged", () => {
    expect(kinds({ specs, observed: [sighting("running")] })).toEqual(["probe"]);
    expect(kinds({ specs, observed: [sighting("running")], facts: { isProbing: true } })).toEqual([]);
    expect(kinds({ specs, observed: [sighting("starting")] })).toEqual([]);
  });
  it("is probed while the weights of its successor are downloaded, and stopped only after that", () => {
    const newer = [instanceSpec({ generation: "2" })];
    const observed = [sighting("running")];
    expect(kinds({ specs: newer, observed })).toEqual(["fetch", "probe"]);
    expect(kinds({ specs: newer, observed, facts: { busy: { kind: "fetch", generation: 2 } } })).toEqual(["probe"]);
    expect(diff(view({ specs: newer, observed, facts: { weights: here } }))[0]).toMatchObject({
      kind: "stop",
      why: "superseded",
    });
  });
  it("continues when its successor cannot be fetched", () => {
    const facts = { failure: { code: "hub_gated_no_token", message: "" } };
    expect(kinds({ specs: [instanceSpec({ generation: "2" })], observed: [sighting("running")], facts })).toEqual([
      "probe",
    ]);
  });
  it("is replaced by the newer generation once it ended", () => {
    const given = { specs: [instanceSpec({ generation: "2" })], facts: { weights: here } };
    expect(diff(view({ ...given, observed: [sighting("exited")] }))[0]).toMatchObject({
      kind: "remove",
      why: "superseded",
    });
    expect(kinds(given)).toEqual(["start"]);
  });
  it("is unchanged when an older generation is desired", () => {
    expect(kinds({ specs, observed: [sighting("running", { generation: 2 })] })).toEqual(["probe"]);
    expect(kinds({ specs, observed: [sighting("exited", { generation: 2 })] })).toEqual([]);
  });
  it("is restarted when it no longer replies", () => {
    const seen = sighting("running");
    const life = sighted(freshFacts(1, 0), seen, 0).life;
    if (!life) throw new Error("no life");
    const facts = { life: { ...life, isReady: false, failures: 3, nextProbeMs: nowMs + 1 } };
    expect(diff(view({ specs, observed: [seen], facts }))[0]).toMatchObject({ kind: "restart", why: "health" });
    const external = [instanceSpec({ engine: "external" })];
    expect(kinds({ specs: external, observed: [seen], facts })).toEqual([]);
  });
  it("is stopped when its start took longer than 30 minutes without progress", () => {
    const seen = sighting("starting");
    const life = sighted(freshFacts(1, 0), seen, nowMs - 31 * 60_000).life;
    expect(diff(view({ specs, observed: [seen], facts: { life } }))[0]).toMatchObject({ why: "start_timeout" });
  });
  it("is stopped as a rental, which is billed, when SSH does not reply within 2 minutes", () => {
    const seen = sighting("starting");
    const rental = [instanceSpec({ engine: "container", weights: null })];
    const sinceMs = (age: number) => ({ life: sighted(freshFacts(1, 0), seen, nowMs - age).life });
    const step = (age: number) => diff(view({ specs: rental, observed: [seen], facts: sinceMs(age) }))[0];
    expect(step(121_000)).toMatchObject({ why: "start_timeout" });
    expect(step(119_000)).not.toMatchObject({ why: "start_timeout" });
  });
});

describe("a desired instance that ended", () => {
  const specs = [instanceSpec()];
  it("is counted once, then started again", () => {
    expect(kinds({ specs, observed: [sighting("exited")] })).toEqual(["count-exit"]);
    const facts = { countedExit: "100@boot:1", weights: here };
    expect(kinds({ specs, observed: [sighting("exited")], facts })).toEqual(["start"]);
  });
});

describe("a tombstone", () => {
  it("is stopped, then removed, then needs no step", () => {
    expect(diff(view({ tombstones: [id], observed: [sighting("running")] }))[0]).toMatchObject({
      kind: "stop",
      why: "tombstone",
    });
    expect(kinds({ tombstones: [id], observed: [sighting("exited")] })).toEqual(["remove"]);
    expect(kinds({ tombstones: [id] })).toEqual([]);
  });
  it("ends a download", () =>
    expect(kinds({ tombstones: [id], facts: { busy: { kind: "fetch", generation: 1 } } })).toEqual(["cancel"]));
});

const state = fc.constantFrom<Observed["state"]>("starting", "running", "exited");
const name = fc.constantFrom("a", "b", "c", "d");
const world = fc.record({
  specs: fc.uniqueArray(fc.record({ instanceId: name, generation: fc.constantFrom("1", "2", "3") }), {
    selector: (one) => one.instanceId,
  }),
  tombstones: fc.uniqueArray(name),
  observed: fc.uniqueArray(fc.record({ id: name, state, generation: fc.integer({ min: 1, max: 3 }) }), {
    selector: (one) => one.id,
  }),
  isTold: fc.boolean(),
  weightsHere: fc.boolean(),
});
const viewOf = (w: typeof world extends fc.Arbitrary<infer W> ? W : never) =>
  view({
    specs: w.specs.map((spec) => instanceSpec(spec)),
    tombstones: w.tombstones,
    observed: w.observed.map((one) => sighting(one.state, one)),
    facts: w.weightsHere ? { weights: here } : {},
    isTold: w.isTold,
  });
const ends = (step: Step) => step.kind === "stop" || step.kind === "remove" || step.kind === "restart";

describe("for any desired and observed state", () => {
  it("stops and removes nothing for an empty or missing desired state", () => {
    fc.assert(
      fc.property(world, (w) => {
        expect(diff(viewOf({ ...w, specs: [], tombstones: [] })).filter(ends)).toEqual([]);
        expect(diff(viewOf({ ...w, isTold: false })).filter(ends)).toEqual([]);
      }),
    );
  });
  it("stops or removes only instances of a tombstone, or replaced by a newer generation", () => {
    fc.assert(
      fc.property(world, (w) => {
        const isOutdated = (one: string) => {
          const wanted = w.specs.find((spec) => spec.instanceId === one);
          const seen = w.observed.find((other) => other.id === one);
          return wanted !== undefined && seen !== undefined && seen.generation < Number(wanted.generation);
        };
        for (const step of diff(viewOf(w)).filter(ends))
          expect((w.tombstones as string[]).includes(step.id) || isOutdated(step.id)).toBe(true);
      }),
    );
  });
  it("returns the same steps for the same view, at most one besides a probe for each instance", () => {
    fc.assert(
      fc.property(world, (w) => {
        const steps = diff(viewOf(w));
        expect(diff(viewOf(w))).toEqual(steps);
        const others = steps.filter((step) => step.kind !== "probe").map((step) => step.id);
        expect(new Set(others).size).toBe(others.length);
      }),
    );
  });
  it("removes the instances of tombstones step by step and then needs no step", () => {
    fc.assert(
      fc.property(world, (w) => {
        let seen = w.observed.map((one) => sighting(one.state, one));
        for (let pass = 0; pass < 3; pass++) {
          const steps = diff(view({ tombstones: w.tombstones, observed: seen }));
          for (const step of steps.filter(ends)) {
            if (step.kind === "remove") seen = seen.filter((one) => one.instanceId !== step.id);
            else
              seen = seen.map((one) =>
                one.instanceId === step.id ? sighting("exited", { id: step.id, generation: one.generation }) : one,
              );
          }
        }
        expect(seen.filter((one) => (w.tombstones as string[]).includes(one.instanceId))).toEqual([]);
        expect(diff(view({ tombstones: w.tombstones, observed: seen })).filter(ends)).toEqual([]);
      }),
    );
  });
});
