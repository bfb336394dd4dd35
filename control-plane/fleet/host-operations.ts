// The operator's view of hosts, and operations to take them out of use and back.

import type { FormatSkill } from "../../proto/api-formats.ts";
import type { HostId, InstanceId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { nodeConnected, nodeDraining, nodeInUse, nodeNotFound, nothingCordoned } from "./errors.ts";
import { hostNamed } from "./find-host.ts";
import type { HostView } from "./host.ts";
import { type AgedLive, requestsAt } from "./live.ts";
import { type Proposal, proposeRebalance } from "./rebalance.ts";
import type { FleetStore, HostOperationStore, Occupant } from "./store.ts";

export interface NodeView extends HostView {
  /** Last reported figures and their age; undefined before the first report. */
  readonly figures: AgedLive | undefined;
  readonly instances: readonly NodeInstance[];
}

export interface NodeInstance extends Occupant {
  /** Requests of this replica on it. */
  readonly inFlight: number;
  /** Formats besides chat in which this replica passes requests on to it. */
  readonly formats: readonly FormatSkill[];
}

export interface HostProgress {
  readonly host: HostId;
  /** Instances present when the drain began. */
  readonly total: number;
  readonly left: number;
  /** Instances among those that are bound to this host's disk and wait for their owners. */
  readonly fixed: number;
  /** Running and waiting requests there, if recently reported. */
  readonly inFlight: number;
}

export interface EndedUnknown {
  readonly host: HostId;
  readonly instances: readonly InstanceId[];
}

/** All methods take an id or a name and throw nodeNotFound, or nodeNameShared for an ambiguous name. */
export interface HostOperations {
  list(): Promise<readonly NodeView[]>;
  get(node: string): Promise<NodeView>;
  /** Returns an unknown id unchanged: the host may have been removed. */
  idOf(node: string): Promise<HostId>;
  /** Throws nodeDraining. */
  cordon(node: string, act: Act): Promise<HostId>;
  /**
   * Returns GPUs that were cordoned for a fault to use: without `gpu` all of them, and the host too if it was cordoned or
   * drained. Throws nothingCordoned.
   */
  uncordon(node: string, gpu: string | undefined, act: Act): Promise<NodeView>;
  /** Returns false when there was nothing to end. */
  end(node: string, act: Act): Promise<boolean>;
  /** Instances serve until replaced elsewhere; after `deadlineMs` the last requests are cut. */
  drain(node: string, deadlineMs: number, act: Act): Promise<HostId>;
  progress(node: string): Promise<HostProgress>;
  /** Throws nodeInUse, nodeConnected. */
  remove(node: string, act: Act): Promise<HostId>;
  /** Ends unknown instances there, all or the given ones; returns those it ends. */
  endUnknown(node: string, only: readonly string[] | undefined, act: Act): Promise<EndedUnknown>;
  /** Proposes moves that free the most GPUs on one host; moves nothing. */
  rebalance(): Promise<Proposal | undefined>;
}

export function createHostOperations(deps: {
  readonly store: HostOperationStore;
  readonly snapshot: () => Promise<readonly HostView[]>;
  /** Figures of these hosts; default: of every host. */
  readonly live: (hosts?: readonly HostId[]) => Promise<ReadonlyMap<HostId, AgedLive>>;
  /** Requests of this replica on an instance. */
  readonly inFlight: (instance: InstanceId) => number;
  /** Formats besides chat in which this replica passes requests on to an instance. */
  readonly formats: (instance: InstanceId) => readonly FormatSkill[];
  readonly uncordonGpus: FleetStore["uncordon"];
}): HostOperations {
  const { store } = deps;

  const find = async (node: string): Promise<HostView> => named(await deps.snapshot(), node);

  async function list(): Promise<readonly NodeView[]> {
    const figures = await deps.live();
    const instances = Map.groupBy(await store.placed(), (instance) => instance.hostId);
    return (await deps.snapshot()).map((host) => ({
      ...host,
      figures: figures.get(host.id),
      instances: (instances.get(host.id) ?? []).map((one) => ({
        ...one,
        inFlight: deps.inFlight(one.id),
        formats: deps.formats(one.id),
      })),
    }));
  }

  async function get(node: string): Promise<NodeView> {
    return named(await list(), node);
  }

  async function begin(node: string, deadlineMs: number | undefined, act: Act): Promise<HostId> {
    const { id, hostname } = await find(node);
    const outcome = await store.begin({ host: id, deadlineMs }, act);
    if (outcome === "unknown") throw nodeNotFound(node);
    if (outcome === "draining") throw nodeDraining(hostname);
    return id;
  }

  return {
    list,
    get,
    async uncordon(node, gpu, act) {
      const { id, hostname } = await find(node);
      const isHostBack = gpu === undefined && (await store.end(id, act));
      const areGpusBack = await deps.uncordonGpus({ host: id, gpu, act });
      if (!isHostBack && !areGpusBack) throw nothingCordoned(hostname, gpu);
      return get(id);
    },
    cordon: (node, act) => begin(node, undefined, act),
    drain: (node, deadlineMs, act) => begin(node, deadlineMs, act),
    idOf: async (node) => hostNamed(await deps.snapshot(), node),
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
      // A live host would register again with its next message.
      if (state === "live") throw nodeConnected(hostname);
      const outcome = await store.remove(id, act);
      if (outcome === "unknown") throw nodeNotFound(node);
      if (outcome === "has_instances") throw nodeInUse(hostname);
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

function named<Host extends HostView>(hosts: readonly Host[], node: string): Host {
  const id = hostNamed(hosts, node);
  const found = hosts.find((host) => host.id === id);
  if (!found) throw nodeNotFound(node);
  return found;
}
