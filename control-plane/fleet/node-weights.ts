// Weights that an operator prefetches to a host, and keeps there if pinned. No deployment is needed.

import { randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { notFound } from "../service-error.ts";
import { hostNamed } from "./find-host.ts";
import type { AskedWeights, FleetStore, NodeWeights, NodeWeightsStore } from "./store.ts";

export type { AskedWeights, NodeWeights };

/** Hosts are given by id or name. */
export interface NodeWeightsOrders {
  /** Repeating a request changes only whether the weights are pinned. Throws prefetchNodeNotFound. */
  ask(host: string, request: AskedWeights, who: Act): Promise<NodeWeights>;
  /** Includes the progress of each, from the host's last report. Throws prefetchNodeNotFound. */
  list(host: string): Promise<readonly NodeWeights[]>;
  /** Fetched weights stay on the host until their space is needed. Throws prefetchNotFound. */
  drop(host: string, id: string, who: Act): Promise<void>;
}

export const prefetchNodeNotFound = (host: string) =>
  notFound("host_not_found", `Host ${host} not found. \`GET /v1/admin/nodes\` lists the hosts.`, {
    param: "node_id",
  });

export const prefetchNotFound = (host: string, id: string) =>
  notFound(
    "prefetch_not_found",
    `Prefetch ${id} not found on ${host}. \`GET /v1/admin/nodes/${host}/weights\` lists its prefetches.`,
    { param: "prefetch_id" },
  );

export function createNodeWeights(store: NodeWeightsStore, fleet: Pick<FleetStore, "hosts">): NodeWeightsOrders {
  const named = async (idOrName: string) => hostNamed(await fleet.hosts(), idOrName);
  return {
    async ask(idOrName, request, who) {
      const host = await named(idOrName);
      const made = await store.ask(host, randomId<"prefetch">(16), request, who);
      if (!made) throw prefetchNodeNotFound(host);
      return made;
    },
    async list(idOrName) {
      const host = await named(idOrName);
      const found = await store.list(host);
      if (!found) throw prefetchNodeNotFound(host);
      return found;
    },
    async drop(idOrName, id, who) {
      const host = await named(idOrName);
      if (!(await store.drop(host, id, who))) throw prefetchNotFound(host, id);
    },
  };
}
