import { expect, it } from "vitest";
import { capacityOf, type Gpu, healthOf, issuesOf, type Node } from "../../../console/domain/nodes.ts";
import { styleOf } from "../../../console/domain/status.ts";
import { suspensionOf } from "../../../console/domain/suspension.ts";
import { suspendReasons } from "../../../proto/suspend-reason.ts";
import { soundNode } from "../../fakes/sound-node.ts";

const gpu: Gpu = {
  uuid: "GPU-1",
  index: 0,
  type: "L4-24GB",
  name: "NVIDIA L4",
  mig_profile: "",
  memory_bytes: 24 * 1024 ** 3,
  is_healthy: true,
  unhealthy_reason: "",
  cordoned_at: null,
  is_claimed: false,
  deploy_id: null,
  deploy_name: null,
  account: null,
  utilization_ratio: null,
  memory_used_bytes: null,
  temperature_celsius: null,
  power_watts: null,
  power_limit_watts: null,
  processes: [],
};
const node: Node = { ...soundNode, pool: "", usage_spool: null, gpus: [gpu] };

it("counts a GPU as free if an instance can be placed on it now", () => {
  const gpus = [
    gpu,
    { ...gpu, is_claimed: true },
    { ...gpu, is_healthy: false },
    { ...gpu, cordoned_at: "2026-01-01" },
  ];
  expect(capacityOf([{ ...node, gpus }])).toEqual([{ type: "L4-24GB", free: 1, all: 4 }]);
  for (const away of [{ state: "unreachable" }, { state: "draining" }, { condition: "cordoned: by hand" }])
    expect(capacityOf([{ ...node, ...away }])).toEqual([{ type: "L4-24GB", free: 0, all: 1 }]);
});

it("lists issues of unreachable hosts, warnings and faulty GPUs", () => {
  expect(issuesOf(node)).toEqual([]);
  expect(issuesOf({ ...node, state: "unreachable", silent_seconds: 31.4 })).toEqual(["no contact for 31 s"]);
  expect(issuesOf({ ...node, warnings: ["the disk is full"] })).toEqual(["the disk is full"]);
  const fallen = { ...gpu, is_healthy: false, unhealthy_reason: "fell off the bus" };
  expect(issuesOf({ ...node, gpus: [fallen] })).toEqual(["GPU 0: fell off the bus"]);
});

it("has a sign for every state", () => {
  const signs = [
    gpu,
    { ...gpu, is_claimed: true },
    { ...gpu, cordoned_at: "2026-01-01" },
    { ...gpu, is_healthy: false },
  ];
  expect(new Set(signs.map((one) => healthOf(one).sign)).size).toBe(4);
  expect(new Set(["deployed", "failed", "stopped", "initializing"].map((status) => styleOf(status).sign)).size).toBe(4);
});

it("has a text and an action for every suspension reason", () => {
  expect(suspendReasons.length).toBeGreaterThan(5);
  for (const reason of suspendReasons) {
    const { why, act } = suspensionOf(reason);
    expect(why).toMatch(/^The account .+\.$/);
    expect(act.length).toBeGreaterThan(5);
  }
});
