// Deployments, containers, LoRA adapters and model records with their stores, and the loops that scale and unload.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { AddressRules } from "../../proto/address-rules.ts";
import type { AccountId } from "../../proto/ids.ts";
import type { HubTokens } from "../accounts/seals.ts";
import { providerPayer } from "../billing/leases.ts";
import { createProviders } from "../billing/providers.ts";
import { providerDayBudget, providerMonthBudget } from "../billing/scopes.ts";
import { createAliases } from "../catalog/aliases.ts";
import type { Directory } from "../catalog/directory.ts";
import type { LookAtRepo } from "../catalog/hub-look.ts";
import { createModelRecords } from "../catalog/model-records.ts";
import type { CatalogStore } from "../catalog/store.ts";
import { createContainers } from "../containers/containers.ts";
import { createAdapters } from "../deployments/adapters.ts";
import { deleteModel } from "../deployments/change.ts";
import type { KnownModel } from "../deployments/create.ts";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import { createDeployments } from "../deployments/deployments.ts";
import type { ShapeOfRepo } from "../deployments/expected-memory.ts";
import { createPublicModels } from "../deployments/known-models.ts";
import { createPlacementPreview } from "../deployments/placement-preview.ts";
import { createScaler } from "../deployments/scaler.ts";
import type { DeploymentStatsStore } from "../deployments/store.ts";
import { createAdapterWaker, createNoteUse, createWaker } from "../deployments/wake.ts";
import { instanceLogs } from "../fleet/instance-logs.ts";
import type { GpuDefaults } from "../quotas/gpu-limits.ts";
import { createProfileStore } from "../store/accounts/profile-store.ts";
import type { ChangeFeed } from "../store/core/change-feed.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createAdapterStore } from "../store/deployments/adapter-store.ts";
import { createContainerStore } from "../store/deployments/containers-store.ts";
import { createReserveStore } from "../store/deployments/gpu-reserve-store.ts";
import { createAliasStore } from "../store/models/alias-store.ts";
import { createModelMetaStore } from "../store/models/model-meta-store.ts";
import { createProviderStore } from "../store/money/provider-store.ts";
import { BadWebhookUrl, WebhookRefused } from "../webhooks/errors.ts";
import { resolveHost } from "../webhooks/resolve-host.ts";
import { createTargets } from "../webhooks/target.ts";
import type { Fleet } from "./fleet.ts";
import { refreshOn } from "./refresh-loop.ts";

/** Interval of host reports. */
const scaleEveryMs = 5_000;
const unloadEveryMs = 15_000;
/** Age of what metrics show of providers. */
const spendingEveryMs = 15_000;
/** Same limit as the hosts' (agent/weights/public-web.ts). */
const maxUrlCharacters = 4096;

export function createDeploymentFeatures(
  deps: FundsDeps & {
    readonly db: OpenDatabase["db"];
    readonly feed: Pick<ChangeFeed, "on">;
    readonly fleet: Fleet;
    readonly directory: Directory;
    readonly catalog: CatalogStore;
    readonly tokens: HubTokens;
    readonly gpuDefaults: GpuDefaults;
    readonly stats: DeploymentStatsStore;
    readonly lookAtRepo: LookAtRepo;
    readonly leastBytes: (repo: string) => number;
    readonly demoModel: (repo: string) => KnownModel | undefined;
    readonly shapeOf: ShapeOfRepo;
    /** Addresses that adapters may be fetched from; the host that fetches checks again. */
    readonly adapterUrlRules: AddressRules;
    /** Time without use after which an adapter is unloaded. */
    readonly adapterIdleMs: number;
    /** Default of `sleep_after_seconds`. */
    readonly sleepAfterSeconds: number;
    readonly registry: Registry;
    /** 1; less in tests shortens the scaler's interval by this factor. */
    readonly clockScale: number;
    readonly log: Logger;
  },
) {
  const { db, fleet, directory, tokens, log } = deps;
  const store = fleet.deploymentStore;
  const containerStore = createContainerStore(db);
  const adapterStore = createAdapterStore(db);
  const profiles = createProfileStore(db);
  const { reserve } = createReserveStore(db);
  const creation = {
    store,
    sleepAfterSeconds: deps.sleepAfterSeconds,
    hosts: fleet.snapshot,
    funds: deps.funds,
    firstMinutes: deps.firstMinutes,
    gpuDefaults: deps.gpuDefaults,
    sealToken: tokens.seal,
    lookAtRepo: deps.lookAtRepo,
    demoModel: deps.demoModel,
    publicModel: createPublicModels({ store, resolve: directory.resolveModel }),
    shapeOf: deps.shapeOf,
    measuredMemory: fleet.measuredMemory.find,
  };
  const scaler = createScaler({ ...deps, store, live: fleet.live });
  const scaling = refreshOn({ on() {} }, [], {
    what: "load of deployments",
    refresh: async () => void (await scaler.pass()),
    everyMs: Math.max(250, scaleEveryMs * deps.clockScale),
    log,
  });
  const unloading = refreshOn(deps.feed, [], {
    what: "LoRA adapters",
    refresh: async () => void (await adapterStore.maintain(deps.adapterIdleMs)),
    everyMs: Math.min(unloadEveryMs, deps.adapterIdleMs),
    log,
  });
  const providers = createProviders({
    store: createProviderStore(db, { month: providerMonthBudget, day: providerDayBudget, payer: providerPayer }),
    registry: deps.registry,
    refresh: directory.refresh,
  });
  const spending = refreshOn(deps.feed, [], {
    what: "spending at providers",
    refresh: providers.refresh,
    everyMs: spendingEveryMs,
    log,
  });
  return {
    providers,
    deployments: createDeployments({
      ...creation,
      stats: deps.stats,
      openToken: tokens.open,
      fetchLogs: (...query) => instanceLogs({ store: fleet.fleetStore, dial: fleet.dial }, ...query),
    }),
    placement: createPlacementPreview({
      ...creation,
      leastBytes: deps.leastBytes,
      resolve: directory.resolveModel,
      hourRates: containerStore.hourRates,
      reserve,
    }),
    containers: createContainers({
      funds: deps.funds,
      firstMinutes: deps.firstMinutes,
      gpuDefaults: deps.gpuDefaults,
      store: containerStore,
      deployments: store,
      snapshot: fleet.snapshot,
      seal: tokens.seal,
      sshKeys: async (account: AccountId) => (await profiles.sshKeys(account)).map(({ key }) => key),
      reserve,
    }),
    adapters: createAdapters({
      store: adapterStore,
      resolve: directory.resolveModel,
      refresh: directory.refresh,
      lookAtRepo: deps.lookAtRepo,
      whyUrlRefused: createUrlCheck(deps.adapterUrlRules),
      sealToken: tokens.seal,
    }),
    aliases: createAliases({
      store: createAliasStore(db),
      isModel: directory.isCallable,
      refresh: directory.refresh,
    }),
    modelRecords: createModelRecords({
      store: createModelMetaStore(db),
      offers: deps.catalog,
      refresh: directory.refresh,
      endDeployments: (...model) => deleteModel(store, ...model),
    }),
    /** For requests that wait for an instance or an adapter. */
    wake: createAdapterWaker({
      store: adapterStore,
      requestInstance: createWaker({ ...deps, store }),
      isBaseReady: (id) => fleet.routing.ready(id).length > 0,
    }),
    noteAdapterUse: createNoteUse(adapterStore),
    run: async (signal: AbortSignal): Promise<void> => {
      await Promise.all([scaling.run(signal), unloading.run(signal), spending.run(signal)]);
    },
  };
}

/** Addresses of adapters follow the rules of webhooks, but may be longer because they contain signatures. */
function createUrlCheck(rules: AddressRules) {
  const targets = createTargets(rules, resolveHost(), maxUrlCharacters);
  return async (url: string): Promise<string | undefined> => {
    if (url.length > maxUrlCharacters) return `it has more than ${maxUrlCharacters} characters`;
    try {
      await targets.check(url);
      return undefined;
    } catch (error) {
      if (error instanceof WebhookRefused) return error.params.why;
      if (error instanceof BadWebhookUrl) return "it is not a URL";
      throw error;
    }
  };
}
