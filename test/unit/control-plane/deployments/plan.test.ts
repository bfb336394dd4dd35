import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DeploymentStatus, PlacedInstance } from "../../../../control-plane/deployments/deployment.ts";
import { isUpToDate, statusAfter } from "../../../../control-plane/deployments/lifecycle.ts";
import { planInstances, replacementsAt, type WantedInstances } from "../../../../control-plane/deployments/plan.ts";
import type { InstanceId } from "../../../../proto/ids.ts";
import { placedInstance } from "../../../fakes/fleet-records.ts";

const i = placedInstance;
const ready = (id: string, over: Partial<PlacedInstance> = {}) => i(id, { phase: "ready", ...over });
const failed = (id: string, over: Partial<PlacedInstance> = {}) => i(id, { phase: "failed", ...over });
const plan = (want: Partial<WantedInstances>, instances: readonly PlacedInstance[]) =>
  planInstances({ status: "deployed", target: 1, spec: 1, mayReplace: true, ...want }, instances);

describe("the plan of a deployment's instances", () => {
  it("places missing instances, and nothing when all exist", () => {
    expect(plan({ status: "initializing", target: 2 }, [])).toMatchObject({ place: 2, tombstone: [] });
    expect(plan({}, [i("a", { phase: "loading" })])).toMatchObject({ place: 0, tombstone: [] });
    expect(plan({}, [ready("a")])).toMatchObject({ place: 0, tombstone: [], revise: [] });
  });

  it("places again an instance that shares a GPU: its part was sized, and priced, for what it runs", () => {
    const shares = { gpuMemoryBytes: 1, spec: 0 };
    expect(plan({}, [ready("a", { spec: 0 })])).toMatchObject({ place: 1, inPlace: "a" });
    expect(plan({}, [ready("a", shares)])).toMatchObject({ place: 1, inPlace: undefined, tombstone: [] });
    expect(plan({}, [i("b", { ...shares, phase: "loading" })])).toMatchObject({
      place: 1,
      revise: [],
      tombstone: ["b"],
    });
  });

  it("replaces a copy on a lost host first, and removes the old one only when the new one serves", () => {
    const old = ready("old", { isHostLost: true });
    expect(plan({}, [old])).toMatchObject({ place: 1, tombstone: [] });
    expect(plan({}, [old, i("new", { phase: "loading" })])).toMatchObject({ place: 0, tombstone: [] });
    expect(plan({}, [old, ready("new")])).toMatchObject({ place: 0, tombstone: ["old"] });
  });

  it("retries the replacement of a copy on a lost host after its back-off: no other instance serves", () => {
    const both = [ready("old", { isHostLost: true }), failed("new")];
    expect(plan({}, both)).toMatchObject({ place: 1, tombstone: ["new"], replaced: 1 });
    expect(plan({ mayReplace: false }, both)).toMatchObject({ place: 0, tombstone: [], replaced: 0 });
  });

  it("retains the serving copy if its host returns before the replacement is ready", () => {
    expect(plan({}, [ready("old"), i("new", { phase: "loading" })]).tombstone).toEqual(["new"]);
  });

  it("removes every instance of a stopped or sleeping deployment, once", () => {
    for (const status of ["stopping", "stopped", "failed", "deleted"] as const) {
      expect(plan({ status }, [ready("a"), i("b", { isTombstoned: true })])).toMatchObject({
        place: 0,
        tombstone: ["a"],
      });
    }
    expect(plan({ target: 0 }, [ready("a"), ready("b", { spec: 0 })])).toMatchObject({
      place: 0,
      tombstone: ["a", "b"],
    });
  });

  it("replaces a failed instance after its back-off while another serves", () => {
    const both = [ready("a"), failed("b")];
    expect(plan({ target: 2 }, both)).toMatchObject({ place: 1, tombstone: ["b"], replaced: 1 });
    expect(plan({ target: 2, mayReplace: false }, both)).toMatchObject({ place: 0, tombstone: [], replaced: 0 });
  });

  it("scales down by removing the instance with the fewest requests, the youngest among equals", () => {
    const three = [
      ready("old", { load: 1, createdAtMs: 1 }),
      ready("busy", { load: 7, createdAtMs: 2 }),
      ready("young", { load: 1, createdAtMs: 3 }),
    ];
    expect(plan({ target: 2 }, three).tombstone).toEqual(["young"]);
    expect(plan({ target: 1 }, three).tombstone).toEqual(["old", "young"]);
    // What does not serve yet goes before any that does.
    expect(plan({ target: 1 }, [i("new", { load: 9 }), ready("idle")]).tombstone).toEqual(["new"]);
  });

  it("starts a new instance beside the old one, and removes the old one when the new one serves", () => {
    const want = { status: "updating", spec: 2 } as const;
    const old = ready("old");
    expect(plan(want, [old])).toEqual({ place: 1, tombstone: [], revise: [], inPlace: "old", replaced: 0 });
    expect(plan(want, [old, i("new", { spec: 2 })])).toMatchObject({ place: 0, tombstone: [], inPlace: undefined });
    expect(plan(want, [old, ready("new", { spec: 2 })])).toMatchObject({ place: 0, tombstone: ["old"] });
  });

  it("replaces several one after the other", () => {
    const want = { status: "updating", spec: 2, target: 3 } as const;
    const old = ["a", "b", "c"].map((id) => ready(id));
    expect(plan(want, old)).toMatchObject({ place: 1, tombstone: [] });
    expect(plan(want, [...old, ready("d", { spec: 2 })])).toMatchObject({ place: 1, tombstone: ["c"] });
    expect(plan(want, [...old.slice(0, 2), ready("d", { spec: 2 })])).toMatchObject({ place: 1, tombstone: [] });
  });

  it("changes in place an instance that does not serve: nothing is lost", () => {
    expect(plan({ status: "updating", spec: 2 }, [i("old", { phase: "loading" })])).toMatchObject({
      place: 0,
      tombstone: [],
      revise: ["old"],
    });
  });

  it("removes a failed update when the previous version is restored, and reverts in-place changes", () => {
    expect(plan({ status: "updating" }, [ready("old"), failed("new", { spec: 2 })])).toMatchObject({
      place: 0,
      tombstone: ["new"],
    });
    expect(plan({ status: "updating" }, [failed("changed", { spec: 2 })])).toMatchObject({
      place: 0,
      tombstone: [],
      revise: ["changed"],
    });
  });

  it("empties a host without a gap if there is capacity elsewhere, and immediately at the deadline", () => {
    const going = ready("going", { leaving: "moving" });
    expect(plan({}, [going])).toMatchObject({ place: 1, tombstone: [], inPlace: undefined });
    expect(plan({}, [going, i("new", { phase: "loading" })])).toMatchObject({ place: 0, tombstone: [] });
    expect(plan({}, [going, ready("new")])).toMatchObject({ tombstone: ["going"] });
    expect(plan({}, [i("going", { phase: "loading", leaving: "moving" })])).toMatchObject({
      place: 1,
      tombstone: ["going"],
    });
    expect(plan({}, [ready("going", { leaving: "due" })])).toMatchObject({ place: 1, tombstone: ["going"] });
  });

  it("doubles the wait before each further replacement, up to five minutes, and resets after a quiet period", () => {
    const at = (replacements: number, sinceMs: number) => replacementsAt({ replacements, replacedAtMs: 0 }, sinceMs);
    expect(at(0, 0)).toMatchObject({ count: 0, isDue: true });
    expect([at(1, 9_999).isDue, at(1, 10_000).isDue]).toEqual([false, true]);
    expect([at(2, 19_999).isDue, at(2, 20_000).isDue]).toEqual([false, true]);
    expect([at(20, 299_999).isDue, at(20, 300_000).isDue]).toEqual([false, true]);
    expect(at(20, 30 * 60_000)).toMatchObject({ count: 0, isDue: true });
    expect([1, 2, 20].map((before) => at(before, 1).dueAtMs)).toEqual([10_000, 20_000, 300_000]);
  });
});

/** A small world: hosts with a place each, agents that bring instances up or give them up, an owner who changes his mind. */
class World {
  instances: PlacedInstance[] = [];
  target = 2;
  status: DeploymentStatus = "initializing";
  spec = 1;
  servingSpec = 0;
  last = 1;
  generation = 1;
  readonly #broken = new Set<number>();
  readonly #places: number;
  #serial = 0;

  constructor(places: number) {
    this.#places = places;
  }

  serving = () => this.instances.filter((one) => one.phase === "ready" && !one.isTombstoned).length;

  update(isBroken: boolean): void {
    this.spec = ++this.last;
    this.generation += 1;
    if (isBroken) this.#broken.add(this.spec);
    if (this.status === "deployed") this.status = "updating";
  }

  /** Returns what it lost of what served by changing an instance in place. */
  pass(): number {
    const standing = { ...this, failReason: "", updateError: "" };
    const outcome = statusAfter(standing, this.instances);
    if (outcome.spec !== this.spec) this.generation += 1;
    Object.assign(this, { status: outcome.status, spec: outcome.spec, servingSpec: outcome.servingSpec });
    const want = { status: this.status, target: this.target, spec: this.spec, mayReplace: true };
    const todo = planInstances(want, this.instances);
    const placed = Math.min(todo.place, this.#places - this.instances.length);
    const inPlace = placed === 0 && todo.place > 0 && todo.inPlace !== undefined ? [todo.inPlace] : todo.revise;
    const isRevised = (id: InstanceId) => inPlace.includes(id);
    const lost = this.instances.filter((one) => isRevised(one.id) && one.phase === "ready").length;
    this.instances = this.instances.map((one) =>
      todo.tombstone.includes(one.id)
        ? { ...one, isTombstoned: true }
        : isRevised(one.id)
          ? { ...one, spec: this.spec, generation: this.generation, phase: "pending" }
          : one,
    );
    for (let n = 0; n < placed; n++) {
      const made = { spec: this.spec, generation: this.generation, createdAtMs: this.#serial, observedGeneration: 0 };
      this.instances.push(i(`i${this.#serial++}`, made));
    }
    return lost;
  }

  /** The agents: what is to go goes, what starts comes up or gives up. */
  settle(): void {
    this.instances = this.instances
      .filter((one) => !one.isTombstoned)
      .map((one) =>
        one.phase === "pending"
          ? { ...one, phase: this.#broken.has(one.spec) ? "failed" : "ready", observedGeneration: one.generation }
          : one,
      );
  }
}

describe("any sequence of updates, broken updates and changes of scale", () => {
  const act = fc.oneof(
    fc.constant({ kind: "update" as const, isBroken: false }),
    fc.constant({ kind: "update" as const, isBroken: true }),
    fc.record({ kind: fc.constant("scale" as const), target: fc.integer({ min: 1, max: 3 }) }),
    fc.constant({ kind: "settle" as const }),
    fc.constant({ kind: "pass" as const }),
  );

  it("never removes a serving copy that is still wanted except in place, and ends with every copy serving the last working version", () => {
    fc.assert(
      fc.property(fc.array(act, { maxLength: 40 }), fc.integer({ min: 3, max: 5 }), (acts, places) => {
        const world = new World(places);
        for (let n = 0; n < 3; n++) {
          world.pass();
          world.settle();
        }
        const pass = () => {
          const before = Math.min(world.serving(), world.target);
          const lost = world.pass();
          expect(world.serving()).toBeGreaterThanOrEqual(before - lost);
          // One beside those wanted, and those on their way out.
          const live = world.instances.filter((one) => !one.isTombstoned).length;
          expect(live).toBeLessThanOrEqual(Math.max(world.target + 1, 4));
        };
        for (const one of acts) {
          if (one.kind === "update") world.update(one.isBroken);
          else if (one.kind === "scale") world.target = one.target;
          else if (one.kind === "settle") world.settle();
          else pass();
        }
        for (let n = 0; n < 30; n++) {
          pass();
          world.settle();
        }
        expect(world.status).toBe("deployed");
        expect(world.instances.every((one) => isUpToDate(one) && one.spec === world.spec)).toBe(true);
        expect(world.instances).toHaveLength(world.target);
        expect(world.servingSpec).toBe(world.spec);
      }),
      {
        numRuns: 300,
        // The only instance, changed in place, fails with a specification that was replaced in the meantime.
        examples: [
          [
            [
              { kind: "update", isBroken: false },
              { kind: "pass" },
              { kind: "update", isBroken: true },
              { kind: "settle" },
              { kind: "scale", target: 1 },
              { kind: "pass" },
              { kind: "update", isBroken: true },
              { kind: "settle" },
            ],
            3,
          ],
        ],
      },
    );
  });
});
