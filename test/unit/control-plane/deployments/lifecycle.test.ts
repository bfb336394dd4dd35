import { describe, expect, it } from "vitest";
import type { DeploymentStatus, PlacedInstance } from "../../../../control-plane/deployments/deployment.ts";
import { type Standing, statusAfter } from "../../../../control-plane/deployments/lifecycle.ts";
import { planInstances } from "../../../../control-plane/deployments/plan.ts";
import { placedInstance } from "../../../fakes/fleet-records.ts";

const standing = (status: DeploymentStatus, over: Partial<Standing> = {}): Standing => ({
  status,
  failReason: "",
  generation: 1,
  target: 1,
  ...over,
});
const i = placedInstance;
const broken = { phase: "failed", failCode: "hub_repo_not_found", failMessage: "no such repository" } as const;

describe("the status of a deployment", () => {
  const table: [DeploymentStatus, Partial<PlacedInstance>[], DeploymentStatus][] = [
    ["initializing", [], "initializing"],
    ["initializing", [{ phase: "pending" }], "initializing"],
    ["initializing", [{ phase: "downloading" }], "downloading"],
    ["downloading", [{ phase: "creating" }], "deploying"],
    ["downloading", [{ phase: "loading" }], "deploying"],
    ["deploying", [{ phase: "downloading" }], "deploying"],
    ["deploying", [{ phase: "ready" }], "deployed"],
    ["initializing", [{ phase: "ready" }], "deployed"],
    ["deploying", [{ phase: "ready", isHostLost: true }], "deploying"],
    ["initializing", [broken], "failed"],
    ["deploying", [broken, { phase: "loading" }], "deploying"],
    ["deployed", [{ phase: "loading" }], "deployed"],
    ["deployed", [], "deployed"],
    ["deployed", [broken], "failed"],
    ["deployed", [broken, { phase: "ready" }], "deployed"],
    ["deployed", [{ ...broken, isTombstoned: true }], "deployed"],
    ["updating", [{ phase: "ready" }], "deployed"],
    ["stopping", [{ phase: "ready", isTombstoned: true }], "stopping"],
    ["stopping", [{ phase: "ready", isTombstoned: true, isHostLost: true }], "stopped"],
    ["stopping", [], "stopped"],
    ["stopped", [], "stopped"],
    ["failed", [{ phase: "ready" }], "failed"],
    ["deleted", [{ phase: "ready" }], "deleted"],
  ];
  it.each(table)("%s with %j is %s", (before, instances, after) => {
    const placed = instances.map((over, index) => i(`i${index}`, over));
    expect(statusAfter(standing(before), placed).status).toBe(after);
  });

  it("carries the instance's code and words as the reason of a failure", () => {
    const { failReason } = statusAfter(standing("downloading"), [i("a", broken)]);
    expect(failReason).toBe("hub_repo_not_found: no such repository");
  });

  it("is updating until every instance serves the new generation, and an old generation's failure is no verdict on it", () => {
    const updating = standing("updating", { generation: 2, target: 2 });
    const old = i("a", { phase: "ready", generation: 2, observedGeneration: 1 });
    const fresh = (id: string) => i(id, { phase: "ready", generation: 2, observedGeneration: 2 });
    expect(statusAfter(updating, [old, fresh("b")]).status).toBe("updating");
    expect(statusAfter(updating, [fresh("a"), fresh("b")]).status).toBe("deployed");
    expect(statusAfter(updating, [i("a", { ...broken, generation: 2, observedGeneration: 1 })]).status).toBe(
      "updating",
    );
    expect(statusAfter(updating, [i("a", { ...broken, generation: 2, observedGeneration: 2 })]).status).toBe("failed");
  });
});

describe("the plan of a deployment's instances", () => {
  const wanted = { status: "deployed", target: 1 } as const;
  const ready = (id: string, over: Partial<PlacedInstance> = {}) => i(id, { phase: "ready", ...over });

  it("places what is missing and nothing when all is there", () => {
    expect(planInstances({ status: "initializing", target: 2 }, [])).toEqual({ place: 2, tombstone: [] });
    expect(planInstances(wanted, [i("a", { phase: "loading" })])).toEqual({ place: 0, tombstone: [] });
    expect(planInstances(wanted, [ready("a")])).toEqual({ place: 0, tombstone: [] });
  });

  it("replaces a copy on a lost host first and sends the old one away only when the new one serves", () => {
    const old = ready("old", { isHostLost: true });
    expect(planInstances(wanted, [old])).toEqual({ place: 1, tombstone: [] });
    expect(planInstances(wanted, [old, i("new", { phase: "loading" })])).toEqual({ place: 0, tombstone: [] });
    expect(planInstances(wanted, [old, ready("new")])).toEqual({ place: 0, tombstone: ["old"] });
  });

  it("keeps the copy that serves when its host returns before the replacement is ready", () => {
    expect(planInstances(wanted, [ready("old"), i("new", { phase: "loading" })]).tombstone).toEqual(["new"]);
  });

  it("sends everything away of a deployment that is not wanted, once", () => {
    for (const status of ["stopping", "stopped", "failed", "deleted"] as const) {
      const plan = planInstances({ status, target: 1 }, [ready("a"), i("b", { isTombstoned: true })]);
      expect(plan).toEqual({ place: 0, tombstone: ["a"] });
    }
  });

  it("does not replace an instance that failed by itself: its agent has tried what there was to try", () => {
    expect(planInstances({ status: "deployed", target: 2 }, [ready("a"), i("b", broken)])).toEqual({
      place: 0,
      tombstone: [],
    });
  });
});
