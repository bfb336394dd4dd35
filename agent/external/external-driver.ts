// Driver for servers that already run and are started and stopped elsewhere. It lists the servers started since the agent
// started; after a restart the reconciler starts them again from the stored desired state.
import type { InstanceId } from "../../proto/ids.ts";
import type { ContainerDriver, Observed } from "../reconcile/driver.ts";

export function createExternalDriver(nowMs: () => number = Date.now): ContainerDriver {
  const known = new Map<InstanceId, Observed>();
  return {
    name: "external",
    list: async () => [...known.values()],
    async pull() {},
    async start(plan) {
      const origin = plan.externalUrl ?? "";
      const identity = `external:${origin}`;
      const { instanceId, deployId, generation } = plan;
      const before = known.get(instanceId);
      const isSame = before?.state === "running" && before.generation === generation && before.identity === identity;
      if (isSame) return;
      known.set(instanceId, {
        instanceId,
        deployId,
        generation,
        state: "running",
        origin,
        secret: plan.secret,
        api: plan.api,
        identity,
        startedAtMs: nowMs(),
      });
    },
    async stop(id) {
      const one = known.get(id);
      if (one?.state !== "running") return;
      const { instanceId, deployId, generation, identity } = one;
      const ended = { exitCode: undefined, signal: undefined, oomKilled: false, finishedAtMs: nowMs() };
      known.set(id, { instanceId, deployId, generation, identity, state: "exited", ...ended });
    },
    async remove(id) {
      known.delete(id);
    },
    logs: async () => [],
    watch() {},
    async close() {},
  };
}
