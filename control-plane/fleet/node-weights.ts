// Weights an operator wants on a host before anybody asks for them, and keeps there if pinned. A download needs no deployment.
import { randomId } from "../../proto/ids.ts";
import { ServiceError } from "../service-error.ts";
import { hostNamed } from "./find-host.ts";
import type { AskedWeights, FleetStore, NodeWeights, NodeWeightsStore } from "./store.ts";

export type { AskedWeights, NodeWeights };

/** Who asks, for the audit log. */
export interface Asker {
  readonly by: string;
  readonly ip: string;
}

/** Hosts are named by id or name. */
export interface NodeWeightsVerbs {
  /** The same repository, revision, file and format again changes only whether it is pinned. Throws PrefetchNodeNotFound. */
  ask(host: string, wish: AskedWeights, who: Asker): Promise<NodeWeights>;
  /** With how far each has come, as of the host's last report. Throws PrefetchNodeNotFound. */
  list(host: string): Promise<readonly NodeWeights[]>;
  /** What was fetched stays on the host until its room is needed. Throws PrefetchNotFound. */
  drop(host: string, id: string, who: Asker): Promise<void>;
}

export class PrefetchNodeNotFound extends ServiceError {
  readonly code = "host_not_found";
  constructor(host: string) {
    super(`There is no host ${host}. \`GET /v1/admin/nodes\` lists the hosts.`, { param: "node_id" });
  }
}

export class PrefetchNotFound extends ServiceError {
  readonly code = "prefetch_not_found";
  constructor(host: string, id: string) {
    super(`${host} was not asked for weights under ${id}. \`GET /v1/admin/nodes/${host}/weights\` lists what it was.`, {
      param: "prefetch_id",
    });
  }
}

export function createNodeWeights(store: NodeWeightsStore, fleet: Pick<FleetStore, "hosts">): NodeWeightsVerbs {
  const named = async (idOrName: string) => hostNamed(await fleet.hosts(), idOrName);
  return {
    async ask(idOrName, wish, who) {
      const host = await named(idOrName);
      const made = await store.ask(host, randomId<"prefetch">(16), wish, who);
      if (!made) throw new PrefetchNodeNotFound(host);
      return made;
    },
    async list(idOrName) {
      const host = await named(idOrName);
      const found = await store.list(host);
      if (!found) throw new PrefetchNodeNotFound(host);
      return found;
    },
    async drop(idOrName, id, who) {
      const host = await named(idOrName);
      if (!(await store.drop(host, id, who))) throw new PrefetchNotFound(host, id);
    },
  };
}
