import { describe, expect, it } from "vitest";
import { type DeploymentEvent, instancesIn, phasesOf } from "../../../console/domain/phases.ts";

const base = Date.parse("2026-01-02T03:00:00Z");

/** Newest first, as the API sends them. */
const events = (
  ...list: readonly [second: number, kind: string, instance?: string | undefined, state?: string, reason?: string][]
) =>
  list
    .map(
      ([second, kind, instance, state = "", reason = ""], index): DeploymentEvent => ({
        id: `${index}`,
        at: new Date(base + second * 1000).toISOString(),
        kind,
        deploy_id: "d",
        instance_id: instance ?? null,
        state,
        reason,
      }),
    )
    .reverse();

const at = (second: number): number => base + second * 1000;

describe("phases of a deployment", () => {
  it("have the time from one to the next, and the last one runs", () => {
    const all = events(
      [0, "deployment.created"],
      [2, "instance.placed", "a"],
      [2, "instance.downloading", "a"],
      [12, "instance.creating", "a"],
      [13, "instance.loading", "a"],
    );
    expect(phasesOf(all, "deploying", at(20))).toEqual([
      { name: "waiting", ms: 2000, is: "done" },
      { name: "downloading", ms: 10_000, is: "done" },
      { name: "creating", ms: 1000, is: "done" },
      { name: "loading", ms: 7000, is: "now" },
      { name: "ready", ms: undefined, is: "next" },
    ]);
  });

  it("do not change while an instance waits for a reason, which is that of the instance", () => {
    const all = events(
      [0, "deployment.created"],
      [2, "instance.placed", "a"],
      [12, "instance.creating", "a"],
      [15, "instance.waiting", "a", "creating", "the node cannot pull the image"],
    );
    const now = phasesOf(all, "deploying", at(20)).filter(({ is }) => is === "now");
    expect(now).toEqual([{ name: "creating", ms: 8000, is: "now" }]);
    expect(instancesIn(all)).toMatchObject([
      { phase: "creating", sinceMs: at(12), reason: "the node cannot pull the image" },
    ]);
  });

  it("show where an instance failed", () => {
    const all = events(
      [0, "deployment.created"],
      [0, "instance.placed", "a"],
      [28, "instance.failed", "a", "failed", "hub_unreachable: no network"],
      [29, "deployment.failed"],
      [29, "instance.removed", "a", "failed"],
    );
    const failed = phasesOf(all, "failed", at(60)).find(({ is }) => is === "failed");
    expect(failed).toEqual({ name: "downloading", ms: 28_000, is: "failed" });
  });

  it("show the wait of a deployment without an instance", () => {
    const [first, ...others] = phasesOf(events([0, "deployment.created"]), "initializing", at(9));
    expect(first).toEqual({ name: "waiting", ms: 9000, is: "now" });
    expect(others.map(({ is }) => is)).toEqual(["next", "next", "next", "next"]);
  });

  it("are those of the newest instance, and its wait begins with the last change of the scale", () => {
    const all = events(
      [0, "deployment.created"],
      [1, "instance.placed", "a"],
      [5, "instance.ready", "a"],
      [100, "deployment.scaled", undefined, "2"],
      [103, "instance.placed", "b"],
      [110, "instance.ready", "b"],
    );
    const phases = phasesOf(all, "deployed", at(120));
    expect(phases.map(({ name, ms }) => [name, ms])).toEqual([
      ["waiting", 3000],
      ["downloading", 7000],
      ["creating", undefined],
      ["loading", undefined],
      ["ready", 10_000],
    ]);
  });

  it("are none without events", () => {
    expect(phasesOf([], "deployed", at(0))).toEqual([]);
  });
});

describe("instances in events", () => {
  it("keep their phase at an event that is none", () => {
    const all = events([0, "instance.placed", "a"], [9, "instance.ready", "a"], [20, "instance.noticed", "a"]);
    expect(instancesIn(all)).toMatchObject([{ id: "a", phase: "ready", sinceMs: at(9) }]);
  });

  it("keep the reason of their last failure, restarts and removal; newest first", () => {
    const all = events(
      [0, "instance.placed", "a"],
      [1, "instance.restarted", "a", "3", "out_of_memory"],
      [2, "instance.removed", "a", "failed"],
      [3, "instance.placed", "b"],
      [9, "instance.ready", "b", "ready"],
    );
    expect(instancesIn(all)).toEqual([
      { id: "b", phase: "ready", sinceMs: at(9), placedMs: at(3), restarts: 0, reason: "", isRemoved: false },
      {
        id: "a",
        phase: "removed",
        sinceMs: at(2),
        placedMs: at(0),
        restarts: 3,
        reason: "out_of_memory",
        isRemoved: true,
      },
    ]);
  });
});
