// The routing table in memory: a projection of PostgreSQL that every replica keeps by pushed changes. It is loaded before
// the first request and used at once; while the database cannot be read the last known routes stay.
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { HostClocks } from "./host-clocks.ts";
import type { Route, Routes } from "./routes.ts";
import type { FleetStore, RouteRow } from "./store.ts";

type OwnRoute = { -readonly [K in keyof Route]: Route[K] } & { nodeEpoch: bigint };

export interface RoutingTable extends Routes {
  /** Reads the table anew. Objects of known instances stay the same ones. Throws when the database is away. */
  refresh(): Promise<void>;
  readonly isLoaded: boolean;
  /** Requests of this replica on an instance. */
  inFlight(instance: InstanceId): number;
  /** The host reported or proved its data path: instances that refused a connection are tried again. */
  sawReport(host: HostId): void;
  /** Called when the data path refused a connection, for a new proof. */
  onFailure(listener: (host: HostId) => void): void;
}

export function createRoutingTable(deps: {
  readonly store: Pick<FleetStore, "readyInstances">;
  readonly clocks: Pick<HostClocks, "heard" | "state">;
}): RoutingTable {
  const known = new Map<InstanceId, OwnRoute>();
  const refused = new Map<InstanceId, HostId>();
  const listeners: ((host: HostId) => void)[] = [];
  let byDeployment = new Map<DeploymentId, OwnRoute[]>();
  let isLoaded = false;

  function project(row: RouteRow): OwnRoute {
    const before = known.get(row.instanceId);
    // A new epoch is a new registration: what refused the old one may answer now.
    if (before && before.nodeEpoch !== row.nodeEpoch) refused.delete(row.instanceId);
    return before ? Object.assign(before, row) : { ...row, inFlight: 0 };
  }

  return {
    get isLoaded() {
      return isLoaded;
    },
    async refresh() {
      const next = new Map<DeploymentId, OwnRoute[]>();
      const rows = await deps.store.readyInstances();
      for (const row of rows) {
        const route = project(row);
        known.set(row.instanceId, route);
        const group = next.get(row.deployId);
        if (group) group.push(route);
        else next.set(row.deployId, [route]);
      }
      const ids = new Set(rows.map((row) => row.instanceId));
      for (const [id, route] of known) {
        // A route with requests on it is remembered: the same instance may become ready again meanwhile.
        if (ids.has(id) || route.inFlight > 0) continue;
        known.delete(id);
        refused.delete(id);
      }
      byDeployment = next;
      isLoaded = true;
    },
    ready(deployment, adapter) {
      const all = byDeployment.get(deployment) ?? [];
      const group = adapter === undefined ? all : all.filter((route) => route.adapters?.has(adapter));
      const isUsable = (route: OwnRoute) =>
        !refused.has(route.instanceId) && deps.clocks.state(route.hostId) === "live";
      // The usual case makes no new array: this is on the path of every request.
      return group.every(isUsable) ? group : group.filter(isUsable);
    },
    inFlight: (instance) => known.get(instance)?.inFlight ?? 0,
    sawAnswer: (host) => deps.clocks.heard(host),
    sawFailure(host, instance) {
      refused.set(instance, host);
      for (const listener of listeners) listener(host);
    },
    sawReport(host) {
      for (const [instance, on] of refused) if (on === host) refused.delete(instance);
    },
    onFailure(listener) {
      listeners.push(listener);
    },
  };
}
