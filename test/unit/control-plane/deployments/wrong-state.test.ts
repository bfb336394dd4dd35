// What is asked of a deployment at the wrong time is refused with what to do instead.
import { expect, it } from "vitest";
import { startDeployment, stopDeployment, updateDeployment } from "../../../../control-plane/deployments/change.ts";
import type { DeploymentStatus } from "../../../../control-plane/deployments/deployment.ts";
import { deployment } from "../../../fakes/deployment-ports.ts";

const gpuDefaults = { perType: 8 };
const free = { funds: async () => null, firstMinutes: async () => 0n };

it.each([
  ["failed", /start it again or delete it/, ["put", "stop"]],
  ["stopping", /Wait until it is stopped/, ["put", "stop", "start"]],
  ["deleted", /[Cc]reate a new one/, ["put", "stop", "start"]],
  ["stopped", /is already stopped/, ["stop"]],
  ["deployed", /is deployed\. .*stop it first/, ["start"]],
] as const)("one that is %s", async (status: DeploymentStatus, advice, verbs) => {
  const one = deployment({ status });
  const store = { get: async () => one, change: () => Promise.reject(new Error("nothing is written")) };
  const calls = {
    put: () => updateDeployment(store, one.account, one.id, { maxInstances: 3 }, gpuDefaults),
    stop: () => stopDeployment(store, one.account, one.id),
    start: () => startDeployment(store, one.account, one.id, { ...free, gpuDefaults }),
  };
  for (const verb of verbs) await expect(calls[verb](), verb).rejects.toThrow(advice);
});
