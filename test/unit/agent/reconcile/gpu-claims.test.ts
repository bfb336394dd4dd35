// P10 at the agent: whatever it is told, no GPU is given to two instances that may not share it.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { diff } from "../../../../agent/reconcile/diff.ts";
import type { Observed } from "../../../../agent/reconcile/driver.ts";
import { type Facts, forGeneration, freshFacts, sighted, type View } from "../../../../agent/reconcile/facts.ts";
import type { InstanceSpec__Output } from "../../../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../../../proto/ids.ts";
import { instanceSpec, sighting } from "../../../fakes/instance-spec.ts";

const nowMs = 1_000_000;
const here = { kind: "here", modelPath: "/models/m.gguf" } as const;
const counted = { countedExit: "100@boot:1" } as const;

interface Given {
  readonly specs?: readonly InstanceSpec__Output[];
  readonly tombstones?: readonly string[];
  readonly observed?: readonly Observed[];
  readonly facts?: Readonly<Record<string, Partial<Facts>>>;
  readonly unsettled?: readonly string[];
}

function view({ specs = [], tombstones = [], observed = [], facts = {}, unsettled = [] }: Given): View {
  const ids = new Set([...specs.map((one) => one.instanceId), ...tombstones, ...observed.map((one) => one.instanceId)]);
  return {
    desired: { generation: "1", instances: [...specs], tombstones: [...tombstones] },
    observed: new Map(observed.map((one) => [one.instanceId, one])),
    facts: new Map(
      [...ids].map((id) => {
        const seen = observed.find((one) => one.instanceId === id);
        const fresh = { ...freshFacts(1, 0), weights: here };
        return [id as InstanceId, { ...(seen ? sighted(fresh, seen, nowMs) : fresh), ...facts[id] }];
      }),
    ),
    unsettled: new Set(unsettled as readonly InstanceId[]),
    uses: new Map(),
    controlTimeMs: 0,
    minAwakeMs: 0,
    isHeld: false,
    nowMs,
  };
}

const spec = (instanceId: string, gpuUuids: string[], gpuMemoryBytes = "0") =>
  instanceSpec({ instanceId, gpuUuids, gpuMemoryBytes });
const seen = (id: string, state: Observed["state"], claimedGpus: string[]): Observed => ({
  ...sighting(state, { id }),
  claimedGpus,
});
/** What is to be done with the second one, besides looking at it. */
const withB = (given: Given) => diff(view(given)).filter(({ id, kind }) => id === "b" && kind !== "probe");
const wants = [spec("a", ["GPU-1", "GPU-2"]), spec("b", ["GPU-2"])];
const refused = { kind: "refuse", id: "b", holder: "a", gpuUuid: "GPU-2" };

describe("an instance whose GPU another one has", () => {
  it("is refused, and started if each has its own", () => {
    expect(withB({ specs: wants, observed: [seen("a", "running", ["GPU-1", "GPU-2"])] })).toEqual([refused]);
    expect(withB({ specs: wants, observed: [seen("a", "starting", ["GPU-1", "GPU-2"])] })).toEqual([refused]);
    const own = [spec("a", ["GPU-1"]), spec("b", ["GPU-2"])];
    expect(withB({ specs: own, observed: [seen("a", "running", ["GPU-1"])] })).toMatchObject([{ kind: "start" }]);
  });

  it("is refused if both would start in one pass, or the other's start still runs", () => {
    expect(diff(view({ specs: wants })).map(({ id, kind }) => [id, kind])).toEqual([
      ["a", "start"],
      ["b", "refuse"],
    ]);
    expect(withB({ specs: wants, facts: { a: { busy: { kind: "start", generation: 1 } } } })).toEqual([refused]);
    // That start ended while the driver was asked, so nobody saw what it left.
    expect(withB({ specs: wants, unsettled: ["a"] })).toEqual([refused]);
  });

  it("is refused while the other crashes and restarts, and started once that one failed terminally", () => {
    const observed = [seen("a", "exited", ["GPU-1", "GPU-2"])];
    const waits = { ...counted, notBeforeMs: nowMs + 1 };
    expect(withB({ specs: wants, observed, facts: { a: waits } })).toEqual([refused]);
    const failure = { code: "oom_killed", message: "" };
    expect(withB({ specs: wants, observed, facts: { a: { ...counted, failure } } })).toMatchObject([{ kind: "start" }]);
  });

  it("is refused if both ended and will restart; the first restarts", () => {
    const observed = [seen("a", "exited", ["GPU-1", "GPU-2"]), seen("b", "exited", ["GPU-2"])];
    const both = diff(view({ specs: wants, observed, facts: { a: counted, b: counted } }));
    expect(both.map(({ id, kind }) => [id, kind])).toEqual([
      ["a", "start"],
      ["b", "refuse"],
    ]);
    // The first keeps its turn while it waits for its own next attempt.
    expect(withB({ specs: wants, observed, facts: { a: { ...counted, notBeforeMs: nowMs + 1 }, b: counted } })).toEqual(
      [refused],
    );
  });

  it("is refused while the other's older generation is gone and its newer one not started, and started once that failed", () => {
    const specs = [spec("b", ["GPU-2"]), spec("c", ["GPU-1", "GPU-2"])];
    const ran = sighted(freshFacts(1, 0), seen("c", "running", []), 0);
    // As the book has it when a specification of a newer generation has come and the older container was removed.
    const between = { ...forGeneration(ran, 2, nowMs), weights: here };
    const given = { specs, facts: { c: between } };
    const steps = diff(view(given)).map(({ id, kind }) => [id, kind]);
    expect(steps).toEqual([
      ["b", "refuse"],
      ["c", "start"],
    ]);
    const waits = { ...between, weights: { kind: "unknown" }, notBeforeMs: nowMs + 1 } as const;
    expect(withB({ specs, facts: { c: waits } })).toEqual([{ ...refused, holder: "c" }]);
    // An older container of its own, which ended before this agent began, is no better claim.
    const observed = [seen("b", "exited", ["GPU-2"])];
    expect(withB({ specs, observed, facts: { b: counted, c: waits } })).toEqual([{ ...refused, holder: "c" }]);
    const failure = { code: "start_failed", message: "" };
    expect(withB({ specs, facts: { c: { ...between, failure } } })).toMatchObject([{ kind: "start" }]);
  });

  it("is refused beside an unknown instance, which has the GPUs of its label", () => {
    expect(withB({ specs: [spec("b", ["GPU-2"])], observed: [seen("a", "running", ["GPU-2"])] })).toEqual([refused]);
  });

  it("waits without a refusal for one that is stopping, and starts when that ended", () => {
    const given = { specs: [spec("b", ["GPU-2"])], tombstones: ["a"] };
    expect(withB({ ...given, observed: [seen("a", "running", ["GPU-2"])] })).toEqual([]);
    expect(withB({ ...given, observed: [seen("a", "exited", ["GPU-2"])] })).toMatchObject([{ kind: "start" }]);
  });

  it("is started beside it only if the control plane sent each its share of the GPU", () => {
    const observed = [seen("a", "running", ["GPU-1"])];
    const parts = (a: string, b: string) =>
      withB({ specs: [spec("a", ["GPU-1"], a), spec("b", ["GPU-1"], b)], observed }).map(({ kind }) => kind);
    expect(parts("1000", "2000")).toEqual(["start"]);
    expect(parts("0", "2000")).toEqual(["refuse"]);
    expect(parts("1000", "0")).toEqual(["refuse"]);
    // Its part went with its specification; it was told before this one was.
    expect(withB({ specs: [spec("b", ["GPU-1"], "2000")], tombstones: ["a"], observed })).toMatchObject([
      { kind: "start" },
    ]);
  });
});

it("is never started in any pass, whatever is desired and observed", () => {
  const gpus = fc.uniqueArray(fc.constantFrom("1", "2", "3"), { minLength: 1 });
  const one = fc.record({
    id: fc.constantFrom("a", "b", "c", "d"),
    gpus,
    state: fc.constantFrom<Observed["state"] | "absent">("starting", "running", "exited", "absent"),
    isTold: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.uniqueArray(one, { selector: ({ id }) => id }), (world) => {
      const found = diff(
        view({
          specs: world.filter(({ isTold }) => isTold).map((each) => spec(each.id, each.gpus)),
          observed: world.flatMap((each) => (each.state === "absent" ? [] : [seen(each.id, each.state, each.gpus)])),
          facts: Object.fromEntries(world.map(({ id }) => [id, counted])),
        }),
      );
      const begun = new Set<string>(found.filter(({ kind }) => kind === "start").map(({ id }) => id));
      const holding = world.filter(({ id, state }) => begun.has(id) || state === "running" || state === "starting");
      const held = holding.filter(({ id }) => begun.has(id)).flatMap((each) => each.gpus);
      const others = holding.filter(({ id }) => !begun.has(id)).flatMap((each) => each.gpus);
      expect(new Set(held).size).toBe(held.length);
      expect(held.filter((gpu) => others.includes(gpu))).toEqual([]);
    }),
  );
});
