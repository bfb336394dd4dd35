// Weights an operator wants on a host before anybody asks for them, and keeps there if pinned. A download needs no deployment.
import { randomId } from "../../proto/ids.ts";
import { ServiceError } from "../service-error.ts";
import type { AskedWeights, NodeWeights, NodeWeightsStore } from "./store.ts";

export type { AskedWeights, NodeWeights };

/** Who asks, for the audit log. */
export interface Asker {
  readonly by: string;
  readonly ip: string;
}

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

export function createNodeWeights(store: NodeWeightsStore): NodeWeightsVerbs {
  return {
    async ask(host, wish, who) {
      const made = await store.ask(host, randomId<"prefetch">(16), wish, who);
      if (!made) throw new PrefetchNodeNotFound(host);
      return made;
    },
    async list(host) {
      const found = await store.list(host);
      if (!found) throw new PrefetchNodeNotFound(host);
      return found;
    },
    async drop(host, id, who) {
      if (!(await store.drop(host, id, who))) throw new PrefetchNotFound(host, id);
    },
  };
}
