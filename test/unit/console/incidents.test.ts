import { expect, it } from "vitest";
import type { Node } from "../../../console/fleet.ts";
import { incidentsOf } from "../../../console/incidents.ts";

const sound = { imbalance_usd: 0, loss_last_hour_usd: 0 };
const node: Node = {
  node_id: "n1",
  name: "node-1",
  pool: "default",
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
  usage_spool: { records: 1, bytes: 1, oldest_age_seconds: 30 },
  load: null,
  gpus: [],
  instances: [],
};

it("nothing is made of a fleet and books that are sound", () => {
  expect(incidentsOf(sound, [node])).toEqual([]);
});

it("what is wrong is told with the gravest first, each with its page", () => {
  const silent = { ...node, state: "unreachable", silent_seconds: 44.4 };
  const stuck = {
    ...node,
    node_id: "n2",
    name: "node-2",
    usage_spool: { records: 9, bytes: 9, oldest_age_seconds: 200 },
  };
  const found = incidentsOf({ imbalance_usd: 0.5, loss_last_hour_usd: 0.25 }, [silent, stuck]);
  expect(found.map(({ what, page }) => [what, page])).toEqual([
    ["The ledger is out of balance by $0.50.", "/console/money"],
    ["node-1: it has been silent for 44 s.", "/console/nodes/n1"],
    ["node-2: usage has waited 200 s to be recorded.", "/console/nodes/n2"],
    ["$0.25 of work could be charged to nobody in the last hour.", "/console/money"],
  ]);
  expect(found[1]?.advice).toMatch(
    /^Look whether the machine runs.*Models.*elsewhere.*agent instances and rented containers wait for it/,
  );
  expect(found.every(({ advice }) => advice.endsWith("."))).toBe(true);
});
