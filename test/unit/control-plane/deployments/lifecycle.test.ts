import { describe, expect, it } from "vitest";
import type { DeploymentStatus, PlacedInstance } from "../../../../control-plane/deployments/deployment.ts";
import { type DeploymentState, statusAfter } from "../../../../control-plane/deployments/lifecycle.ts";
import { placedInstance } from "../../../fakes/fleet-records.ts";

const standing = (status: DeploymentStatus, over: Partial<DeploymentState> = {}): DeploymentState => ({
  status,
  failReason: "",
  spec: 1,
  servingSpec: 0,
  updateError: "",
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
    // What never served and does not come up elsewhere either has had its try; what served may come back.
    ["deploying", [{ phase: "loading", isHostLost: true }, broken], "failed"],
    ["deploying", [{ ...broken, isHostLost: true }], "failed"],
    ["deployed", [{ phase: "ready", isHostLost: true }, broken], "deployed"],
    ["deployed", [{ phase: "loading", isHostLost: true }, broken], "failed"],
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

  it("carries the code and message of the instance as the reason for a failure", () => {
    const { failReason } = statusAfter(standing("downloading"), [i("a", broken)]);
    expect(failReason).toBe("hub_repo_not_found: no such repository");
    const lost = i("b", { phase: "loading", isHostLost: true });
    expect(statusAfter(standing("deploying"), [lost, i("a", broken)]).failReason).toBe(failReason);
  });

  it("is updating until every instance serves the new version, and ignores failures of the old generation", () => {
    const updating = standing("updating", { spec: 2, servingSpec: 1, target: 2 });
    const old = i("a", { phase: "ready", spec: 1 });
    const fresh = (id: string) => i(id, { phase: "ready", spec: 2 });
    const changing = i("a", { phase: "ready", spec: 2, generation: 2, observedGeneration: 1 });
    expect(statusAfter(updating, [old, fresh("b")]).status).toBe("updating");
    expect(statusAfter(updating, [changing, fresh("b")]).status).toBe("updating");
    expect(statusAfter(updating, [fresh("a"), fresh("b")])).toMatchObject({ status: "deployed", servingSpec: 2 });
    const stale = i("a", { ...broken, spec: 2, generation: 2, observedGeneration: 1 });
    expect(statusAfter(updating, [stale])).toMatchObject({ status: "updating", spec: 2 });
  });

  it("returns to the previous version when an update gives up and none of its instances serves, with the reason", () => {
    const updating = standing("updating", { spec: 2, servingSpec: 1, target: 2 });
    const old = i("a", { phase: "ready", spec: 1 });
    const given = i("b", { ...broken, spec: 2 });
    expect(statusAfter(updating, [old, given])).toEqual({
      status: "updating",
      failReason: "",
      spec: 1,
      servingSpec: 1,
      updateError: "hub_repo_not_found: no such repository",
    });
    expect(statusAfter(updating, [given])).toMatchObject({ status: "updating", spec: 1 });
    // One host's trouble is no verdict on what serves elsewhere.
    const fresh = i("c", { phase: "ready", spec: 2 });
    expect(statusAfter(updating, [old, given, fresh])).toMatchObject({ spec: 2, updateError: "" });
    // Nothing served before: there is nothing to return to.
    expect(statusAfter({ ...updating, servingSpec: 0 }, [given]).status).toBe("failed");
    // An update that nobody ran, because the deployment slept: it is tried at the next start.
    const woken = { ...updating, status: "deployed" as const };
    expect(statusAfter(woken, [given])).toMatchObject({ status: "deployed", spec: 1 });
    expect(statusAfter(woken, [fresh])).toMatchObject({ status: "deployed", spec: 2, servingSpec: 2 });
  });
});
