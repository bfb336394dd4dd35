// Agent instances put together: their verbs for the edge, and the loop that settles what hosts tell of backups.
import { readFileSync } from "node:fs";
import type { Logger } from "pino";
import { createAgentInstances } from "../agent-instances/agent-instances.ts";
import { createAgentBackups } from "../agent-instances/backups.ts";
import { type AgentCatalog, emptyCatalog, priceSubject, readAgentCatalog } from "../agent-instances/catalog.ts";
import { dashboardAddress } from "../agent-instances/dashboard-address.ts";
import { createDashboards } from "../agent-instances/dashboards.ts";
import type { PriceBook } from "../billing/price-book.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import type { HttpDeps } from "../http/verbs.ts";
import { createAgentInstanceStore } from "../store/agent-instance-store.ts";
import { createBackupStore } from "../store/backup-store.ts";
import type { ChangeFeed } from "../store/change-feed.ts";
import { createDashboardStore } from "../store/dashboard-store.ts";
import type { OpenDatabase } from "../store/database.ts";
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
  const catalog = catalogFrom(config.agentCatalogFile);
  const store = createAgentInstanceStore(db);
  const dashboardStore = createDashboardStore(db);
  const dashboards = config.dashboardUrl
    ? createDashboards({
        address: dashboardAddress(config.dashboardUrl),
        store: dashboardStore,
        dataPath: (host) => fleet.fleetStore.dataPath(host),
        clock: () => performance.now(),
      })
    : undefined;
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
    unixMs: Date.now,
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
    what: "what deleted agent instances leave",
    refresh: async () => {
      await agentBackups.sweepDeleted();
      await dashboardStore.sweep();
    },
    everyMs: sweepEveryMs,
    log,
  });
  return {
    verbs: { agentInstances, agentBackups, dashboards } satisfies Pick<
      HttpDeps,
      "agentInstances" | "agentBackups" | "dashboards"
    >,
    tend: agentBackups.tend,
    /** The price book says what the catalogue says, from now on. */
    setPrices: () => setPrices(catalog, deps.prices),
    run: async (signal: AbortSignal): Promise<void> => {
      await Promise.all([loop.run(signal), sweep.run(signal)]);
    },
  };
}

async function setPrices(catalog: AgentCatalog, prices: PriceBook): Promise<void> {
  for (const type of catalog.types.values())
    for (const plan of type.plans) {
      const subject = priceSubject(type.id, plan.id);
      const current = (await prices.list({ kind: "container", subject })).find((one) => one.isCurrent);
      if ((current?.rates.hour ?? 0n) !== plan.hourRate)
        await prices.set({ kind: "container", subject, rates: { hour: plan.hourRate } });
    }
}

/** Throws with every problem of the file. */
function catalogFrom(file: string | undefined): AgentCatalog {
  if (file === undefined) return emptyCatalog;
  const problems: string[] = [];
  const catalog = readAgentCatalog(JSON.parse(readFileSync(file, "utf8")), (sentence) => problems.push(sentence));
  if (problems.length > 0) throw new Error(`${file}: ${problems.join("; ")}`);
  return catalog;
}
