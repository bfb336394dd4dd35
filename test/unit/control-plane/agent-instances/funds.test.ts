import { expect, it } from "vitest";
import { bySystem } from "../../../../control-plane/act.ts";
import { createAgentInstances } from "../../../../control-plane/agent-instances/agent-instances.ts";
import type { AgentInstance, AgentInstanceStore } from "../../../../control-plane/agent-instances/store.ts";
import type { DeploymentId } from "../../../../proto/ids.ts";
import { workspace } from "../../../fakes/agent-instance-ports.ts";
import { account } from "../../../fakes/fleet-records.ts";

it("checks the funds for a start at the price after a discount on the instance's name", async () => {
  const owner = { account, suspendReason: null };
  const stopped = { type: workspace.id, plan: "standard", deployment: { modelName: "cheap", status: "stopped" } };
  let started = 0;
  const store: Partial<AgentInstanceStore> = {
    get: async (id) => ({ ...stopped, deployment: { ...stopped.deployment, id }, operation: null }) as AgentInstance,
    setStatus: async () => {
      started += 1;
      return true;
    },
  };
  const instances = (discounted: string) =>
    createAgentInstances({
      store: store as AgentInstanceStore,
      catalog: { types: new Map([[workspace.id, workspace]]) },
      dashboards: undefined,
      snapshot: async () => [],
      limit: 1,
      funds: async () => 5n,
      firstMinutes: async (_subject, _gpus, _count, { model }) => (model === discounted ? 3n : 6n),
    });
  await expect(instances("other").start(owner, "a" as DeploymentId, bySystem(""))).rejects.toMatchObject({
    code: "insufficient_quota",
  });
  expect(started).toBe(0);
  await instances("cheap").start(owner, "a" as DeploymentId, bySystem(""));
  expect(started).toBe(1);
});
