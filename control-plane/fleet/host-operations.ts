// An operator takes hosts out of use: nothing new, then nothing at all, then the host is forgotten.
import type { HostId, InstanceId } from "../../proto/ids.ts";
import { NodeConnected, NodeDraining, NodeInUse, NodeNotFound } from "./errors.ts";
import { hostNamed } from "./find-host.ts";
import type { HostView } from "./host.ts";
import { type AgedLive, requestsAt } from "./live.ts";
import { type Proposal, proposeRebalance } from "./rebalance.ts";
import type { FleetAct, HostOperationStore } from "./store.ts";

export interface HostProgress {
  readonly host: HostId;
  /** Instances that were there when the drain began. */
  readonly total: number;
  readonly left: number;
  /** Of those: they live on this host's disk and wait for their owners. */
  readonly fixed: number;
  /** Requests that run or wait there, where it said so of late. */
  readonly inFlight: number;
}

export interface EndedUnknown {
  readonly host: HostId;
  readonly instances: readonly InstanceId[];
}

/** All take an id or a name and throw NodeNotFound, or NodeNameShared for a name that several have. */
export interface HostOperations {
  /** Throws NodeDraining. */
  cordon(node: string, act: FleetAct): Promise<HostId>;
  /** Whether there was anything to end. */
  end(node: string, act: FleetAct): Promise<boolean>;
  /** What is there serves until it is replaced elsewhere; `deadlineMs` from now the last requests are cut. */
  drain(node: string, deadlineMs: number, act: FleetAct): Promise<HostId>;
  progress(node: string): Promise<HostProgress>;
  /** Throws NodeInUse, NodeConnected. */
  remove(node: string, act: FleetAct): Promise<HostId>;
  /** Has it end what runs there and no deployment knows, or only these; what is ended. */
  endUnknown(node: string, only: readonly string[] | undefined, act: FleetAct): Promise<EndedUnknown>;
  /** Moves that would open the largest hole; nothing is moved. */
  rebalance(): Promise<Proposal | undefined>;
}

export function createHostOperations(deps: {
  readonly store: HostOperationStore;
  readonly snapshot: () => Promise<readonly HostView[]>;
  readonly live: (hosts: readonly HostId[]) => Promise<ReadonlyMap<HostId, AgedLive>>;
}): HostOperations {
  const { store } = deps;

  async function find(node: string): Promise<HostView> {
    const hosts = await deps.snapshot();
    const named = hostNamed(hosts, node);
    const found = hosts.find(({ id }) => id === named);
    if (!found) throw new NodeNotFound(node);
    return found;
  }

  async function begin(node: string, deadlineMs: number | undefined, act: FleetAct): Promise<HostId> {
    const { id, hostname } = await find(node);
    const outcome = await store.begin({ host: id, deadlineMs }, act);
    if (outcome === "unknown") throw new NodeNotFound(node);
    if (outcome === "draining") throw new NodeDraining(hostname);
    return id;
  }

  return {
    cordon: (node, act) => begin(node, undefined, act),
    drain: (node, deadlineMs, act) => begin(node, deadlineMs, act),
    end: async (node, act) => store.end((await find(node)).id, act),
    async progress(node) {
      const { id, operation } = await find(node);
      const { all, fixed } = await store.left(id);
      const requests = requestsAt((await deps.live([id])).values());
      const inFlight = [...requests.values()].reduce((sum, count) => sum + count, 0);
      return { host: id, total: Math.max(all, operation?.instances ?? 0), left: all, fixed, inFlight };
    },
    async remove(node, act) {
      const { id, hostname, state } = await find(node);
      // A host that is heard would come back with its next word.
      if (state === "live") throw new NodeConnected(hostname);
      const outcome = await store.remove(id, act);
      if (outcome === "unknown") throw new NodeNotFound(node);
      if (outcome === "has_instances") throw new NodeInUse(hostname);
      return id;
    },
    async endUnknown(node, only, act) {
      const { id } = await find(node);
      return { host: id, instances: await store.endUnknown(id, only, act) };
    },
    async rebalance() {
      return proposeRebalance(await deps.snapshot(), await store.placed());
    },
  };
}
