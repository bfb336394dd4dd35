import { expect, it } from "vitest";
import { attentionOf, capacityOf, type Gpu, healthOf, type Node } from "../../../console/fleet.ts";
import { signOf, suspensionInWords } from "../../../console/words.ts";
import { suspendReasons } from "../../../proto/suspend-reason.ts";

const gpu: Gpu = {
  uuid: "GPU-1",
  index: 0,
  type: "L4-24GB",
  memory_bytes: 24 * 1024 ** 3,
  is_healthy: true,
  unhealthy_reason: "",
  cordoned_at: null,
  is_claimed: false,
  deploy_id: null,
  utilization_ratio: null,
  memory_used_bytes: null,
  temperature_celsius: null,
  power_watts: null,
  power_limit_watts: null,
  processes: [],
};
const node: Node = {
  node_id: "n1",
  name: "node-1",
  pool: "",
  state: "ready",
  condition: "",
  silent_seconds: 1,
  agent_version: "",
  os: "",
  cpu_model: "",
  cpu_cores: 1,
  memory_bytes: 1,
  docker_version: "",
  nvidia_driver_version: "",
  cuda_version: "",
  warnings: [],
  clock_skew_seconds: null,
  usage_spool: null,
  load: null,
  gpus: [gpu],
  instances: [],
};

it("a GPU counts as free where something could be placed on it now", () => {
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

it("a host needs somebody when it is away, warned of, or has a GPU at fault; else not", () => {
  expect(attentionOf(node)).toEqual([]);
  expect(attentionOf({ ...node, state: "unreachable", silent_seconds: 31.4 })).toEqual(["it has been silent for 31 s"]);
  expect(attentionOf({ ...node, warnings: ["the disk is full"] })).toEqual(["the disk is full"]);
  const fallen = { ...gpu, is_healthy: false, unhealthy_reason: "fell off the bus" };
  expect(attentionOf({ ...node, gpus: [fallen] })).toEqual(["GPU 0: fell off the bus"]);
});

it("every state has a sign beside its colour", () => {
  const signs = [
    gpu,
    { ...gpu, is_claimed: true },
    { ...gpu, cordoned_at: "2026-01-01" },
    { ...gpu, is_healthy: false },
  ];
  expect(new Set(signs.map((one) => healthOf(one).sign)).size).toBe(4);
  expect(new Set(["deployed", "failed", "stopped", "initializing"].map(signOf)).size).toBe(4);
});

it("every reason of a suspension is said in words, with what clears it", () => {
  expect(suspendReasons.length).toBeGreaterThan(5);
  for (const reason of suspendReasons) {
    const { why, act } = suspensionInWords(reason);
    expect(why).toMatch(/^The account .+\.$/);
    expect(act.length).toBeGreaterThan(5);
  }
});
