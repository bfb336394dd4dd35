// Agent instances and terminals with their stores, and the loops that process backup reports and clean up after deletions.
import type { Logger } from "pino";
import { steadyTime } from "../../proto/steady-time.ts";
import { permissions } from "../accounts/permissions.ts";
import { createAgentInstances } from "../agent-instances/agent-instances.ts";
import { createAgentBackups } from "../agent-instances/backups.ts";
import { readCatalogFile, setCatalogPrices } from "../agent-instances/catalog.ts";
import { dashboardAddress } from "../agent-instances/dashboard-address.ts";
import { createDashboards } from "../agent-instances/dashboards.ts";
import type { PriceBook } from "../billing/price-book.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import type { ChangeFeed } from "../store/core/change-feed.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createAgentInstanceStore } from "../store/deployments/agent-instance-store.ts";
import { createBackupStore } from "../store/deployments/backup-store.ts";
import { createDashboardStore } from "../store/deployments/dashboard-store.ts";
import { createTerminalStore } from "../store/deployments/terminal-store.ts";
import { createTerminals } from "../terminals/terminals.ts";
import type { Fleet } from "./fleet.ts";
import { refreshOn } from "./refresh-loop.ts";

const perAccount = 20;
const settleEveryMs = 10_000;
const sweepEveryMs = 60_000;

export function createAgents(
  deps: FundsDeps & {
    readonly db: OpenDatabase["db"];
    readonly feed: Pick<ChangeFeed, "on">;
    readonly fleet: Pick<Fleet, "snapshot" | "fleetStore">;
    readonly config: Pick<ControlPlaneConfig, "agentCatalogFile" | "dashboardUrl">;
    readonly prices: PriceBook;
    readonly log: Logger;
  },
) {
  const { db, log, config, fleet } = deps;
  const catalog = readCatalogFile(config.agentCatalogFile);
  const store = createAgentInstanceStore(db);
  const dashboardStore = createDashboardStore(db, permissions.change.members);
  const dashboards = config.dashboardUrl
    ? createDashboards({
        address: dashboardAddress(config.dashboardUrl),
        store: dashboardStore,
        dataPath: (host) => fleet.fleetStore.dataPath(host),
        clock: () => performance.now(),
      })
    : undefined;
  const terminalStore = createTerminalStore(db, permissions.change.members);
  const terminals = createTerminals({
    store: terminalStore,
    dataPath: (host) => fleet.fleetStore.dataPath(host),
    changes: deps.feed,
  });
  const agentInstances = createAgentInstances({
    ...deps,
    store,
    catalog,
    dashboards,
    snapshot: deps.fleet.snapshot,
    limit: perAccount,
  });
  const agentBackups = createAgentBackups({
    store: createBackupStore(db),
    instanceExists: async ({ account }, id) => (await store.get(id, account)) !== undefined,
    catalog,
    unixMs: steadyTime.nowMs,
    log,
  });
  const loop = refreshOn(deps.feed, ["command"], {
    what: "operations on volumes",
    refresh: agentBackups.settle,
    everyMs: settleEveryMs,
    log,
  });
  // A deletion, and the end of its last instance, are changes of its deployment.
  const sweep = refreshOn(deps.feed, ["deployment"], {
    what: "data of deleted agent instances",
    refresh: async () => {
      await agentBackups.sweepDeleted();
      await dashboardStore.sweep();
      await terminalStore.sweep();
    },
    everyMs: sweepEveryMs,
    log,
  });
  return {
    features: { agentInstances, agentBackups, dashboards, terminals },
    /** Types with scheduled backups, and the interval of these. */
    backupSchedules: [...catalog.types.values()]
      .filter(({ backupEveryMs }) => backupEveryMs > 0)
      .map(({ id, backupEveryMs }) => ({ type: id, everyMs: backupEveryMs })),
    maintain: agentBackups.maintain,
    setPrices: () => setCatalogPrices(catalog, deps.prices),
    run: async (signal: AbortSignal): Promise<void> => {
      await Promise.all([loop.run(signal), sweep.run(signal)]);
    },
  };
}
