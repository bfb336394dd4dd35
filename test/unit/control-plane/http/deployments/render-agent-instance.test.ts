import { expect, it } from "vitest";
import type { AgentInstance } from "../../../../../control-plane/agent-instances/store.ts";
import type { Deployment } from "../../../../../control-plane/deployments/deployment.ts";
import { renderAgent } from "../../../../../control-plane/http/deployments/agent-instances-routes.ts";
import { agentId, fakeAgentInstances } from "../../../../fakes/agent-instance-ports.ts";
import { account } from "../../../../fakes/fleet-records.ts";

const why = "its operator does not allow the image catalogue/workspace:1 (STOKER_ALLOWED_IMAGES)";
const reasonOf = async (over: Partial<Deployment>, lastFault = "") => {
  const pendingReasons = [{ host: "gpu-box", why }];
  const { agentInstances } = fakeAgentInstances(account, { failReason: "", pendingReasons } as unknown as Deployment);
  const one: AgentInstance = await agentInstances.get({ account, suspendReason: null }, agentId);
  return renderAgent({ ...one, lastFault, deployment: { ...one.deployment, ...over } }).fail_reason;
};

it("an agent instance that waits says what its host lacks, an older fault of its volume or not", async () => {
  const told = `It waits for a host: gpu-box: ${why}.`;
  expect(await reasonOf({ status: "initializing" })).toBe(told);
  expect(await reasonOf({ status: "initializing" }, "an older fault")).toBe(told);
});

it("one that failed, runs or was stopped says nothing of waiting", async () => {
  expect(await reasonOf({ status: "failed", failReason: "image_refused: no" })).toBe("image_refused: no");
  expect(await reasonOf({ status: "deployed" })).toBeNull();
  expect(await reasonOf({ status: "stopped" }, "an older fault")).toBe("an older fault");
});
