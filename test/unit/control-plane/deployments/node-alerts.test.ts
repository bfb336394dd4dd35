import { Registry } from "prom-client";
import { expect, it, vi } from "vitest";
import { createFleetMetrics } from "../../../../control-plane/deployments/fleet-metrics.ts";
import { hostView } from "../../../fakes/fleet-records.ts";

it("hosts with duplicate identities, outdated or revoked agents are counted, also when one report names several", async () => {
  const registry = new Registry();
  const metrics = createFleetMetrics(registry);
  const conditions = ["", "cloned_identity: a; b", "cloned_identity: a; b; control_plane_behind: c", "revoked: d"];
  const hosts = conditions.map((condition, n) => hostView(`h${n}`, { condition }));
  metrics.watch({
    snapshot: async () => hosts,
    sessions: () => 0,
    needsReconcile: () => false,
    deployments: () => new Map(),
  });
  const ending = new AbortController();
  const running = metrics.run(ending.signal);
  await vi.waitFor(
    async () => {
      const page = await registry.metrics();
      expect(page).toContain('stoker_node_alerts{alert="cloned_identity"} 2');
      expect(page).toContain('stoker_node_alerts{alert="control_plane_behind"} 1');
      expect(page).toContain('stoker_node_alerts{alert="revoked"} 1');
    },
    { timeout: 20_000 },
  );
  ending.abort();
  await running;
});
