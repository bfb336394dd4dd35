// Routing table in memory: a projection of PostgreSQL that every replica updates from changes. Loaded before the first
// request; while the database is unavailable the last known routes stay.
import { type ApiFormat, type FormatSkill, formatPaths } from "../../proto/api-formats.ts";
import type { AdapterId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { HostClocks } from "./host-clocks.ts";
import type { Route, Routes } from "./routes.ts";
import type { FleetStore, RouteRow } from "./store.ts";

/** Instances of a deployment, or of one of its adapters. */
interface Group {
  readonly all: OwnRoute[];
  /** Those that were usable at the latest call. */
  usable: readonly OwnRoute[];
  /** Instances by adapter, for adapters that were requested since the table was read. */
  readonly byAdapter: Map<AdapterId, Group>;
}

const groupOf = (all: OwnRoute[]): Group => ({ all, usable: all, byAdapter: new Map() });
const none: readonly Route[] = [];

type OwnRoute = { -readonly [K in keyof Route]: Route[K] } & { nodeEpoch: bigint };

export interface RoutingTable extends Routes {
  /** Reloads the table. Objects of known instances are kept. Throws when the database is unavailable. */
  refresh(): Promise<void>;
  readonly isLoaded: boolean;
  /** Requests of this replica on an instance. */
  inFlight(instance: InstanceId): number;
  /** Slot of an instance; undefined if it is unknown. */
  slotOf(instance: InstanceId): number | undefined;
  /** Formats besides chat in which this replica passes requests on to an instance. */
  formats(instance: InstanceId): readonly FormatSkill[];
  /** The host reported or verified its data path: instances that refused a connection are retried. */
  sawReport(host: HostId): void;
  /** Called after each reload. */
  onRefresh(listener: () => void): void;
  /** Called when the data path refused a connection, to verify it again. */
  onFailure(listener: (host: HostId) => void): void;
}

export function createRoutingTable(deps: {
  readonly store: Pick<FleetStore, "readyInstances">;
  readonly clocks: Pick<HostClocks, "heard" | "state">;
  /** Requests in others than these are always translated. Default: all. */
  readonly passedFormats?: readonly ApiFormat[] | undefined;
}): RoutingTable {
  const { passedFormats } = deps;
  const stopped = Object.keys(formatPaths).filter((format) => passedFormats?.some((one) => one === format) === false);
  // Skills of chats are in no other format.
  const isPassed = (skill: FormatSkill) => !stopped.some((format) => skill.startsWith(format));
  const known = new Map<InstanceId, OwnRoute>();
  const refused = new Map<InstanceId, HostId>();
  const listeners: ((host: HostId) => void)[] = [];
  const refreshListeners: (() => void)[] = [];
  let byDeployment = new Map<DeploymentId, Group>();
  let isLoaded = false;
  let slots = 0;

  function project(row: RouteRow): OwnRoute {
    const before = known.get(row.instanceId);
    // A new registration: instances that refused the old one may respond now.
    if (before && before.nodeEpoch !== row.nodeEpoch) refused.delete(row.instanceId);
    const formats = new Set([...row.formats].filter(isPassed));
    return before
      ? Object.assign(before, row, { formats })
      : { ...row, formats, slot: -1, inFlight: 0, queuedTokens: 0 };
  }

  return {
    get isLoaded() {
      return isLoaded;
    },
    async refresh() {
      const next = new Map<DeploymentId, Group>();
      const rows = await deps.store.readyInstances();
      for (const row of rows) {
        const route = project(row);
        known.set(row.instanceId, route);
        const group = next.get(row.deployId);
        if (group) group.all.push(route);
        else next.set(row.deployId, groupOf([route]));
      }
      for (const { all } of next.values()) for (const route of all) if (route.slot < 0) route.slot = slots++;
      const ids = new Set(rows.map((row) => row.instanceId));
      for (const [id, route] of known) {
        // Keep a route with requests: the same instance may become ready again.
        if (ids.has(id) || route.inFlight > 0) continue;
        known.delete(id);
        refused.delete(id);
      }
      byDeployment = next;
      isLoaded = true;
      for (const listener of refreshListeners) listener();
    },
    ready(deployment, adapter) {
      let group = byDeployment.get(deployment);
      if (group && adapter !== undefined) group = holders(group, adapter);
      if (!group) return none;
      const isUsable = (route: OwnRoute) =>
        !refused.has(route.instanceId) && deps.clocks.state(route.hostId) === "live";
      if (!isFilter(group.usable, group.all, isUsable)) group.usable = group.all.filter(isUsable);
      return group.usable;
    },
    inFlight: (instance) => known.get(instance)?.inFlight ?? 0,
    slotOf: (instance) => known.get(instance)?.slot,
    formats: (instance) => [...(known.get(instance)?.formats ?? [])],
    sawAnswer: (host) => deps.clocks.heard(host),
    sawFailure(host, instance) {
      refused.set(instance, host);
      for (const listener of listeners) listener(host);
    },
    sawReport(host) {
      for (const [instance, on] of refused) if (on === host) refused.delete(instance);
    },
    onRefresh(listener) {
      refreshListeners.push(listener);
    },
    onFailure(listener) {
      listeners.push(listener);
    },
  };
}

function holders({ all, byAdapter }: Group, adapter: AdapterId): Group {
  let group = byAdapter.get(adapter);
  if (!group) {
    group = groupOf(all.filter((route) => route.adapters?.has(adapter)));
    byAdapter.set(adapter, group);
  }
  return group;
}

/** True when `some` equals `all.filter(isKept)`. Allocates nothing: it runs for every request. */
function isFilter<T>(some: readonly T[], all: readonly T[], isKept: (one: T) => boolean): boolean {
  let at = 0;
  for (const one of all) if (isKept(one) && some[at++] !== one) return false;
  return at === some.length;
}
