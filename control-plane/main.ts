// The control plane as one process: configuration, database, features, edges, listen, and the reverse at shutdown. Environment:
// config.ts.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type Logger, pino } from "pino";
import { Registry } from "prom-client";
import { faultPoint } from "../proto/fault-point.ts";
import type { DeploymentId } from "../proto/ids.ts";
import { createLogDestination } from "../proto/log-destination.ts";
import { openTracing } from "../proto/open-tracing.ts";
import type { Tracing } from "../proto/tracing.ts";
import { addressTest } from "./accounts/allowed-ips.ts";
import { createAuthenticator } from "./accounts/authenticate.ts";
import { checkSecrets } from "./accounts/check-secrets.ts";
import { createAccounts } from "./accounts/create-account.ts";
import { createDataKeys } from "./accounts/data-keys.ts";
import { makeFirstAccount } from "./accounts/first-account.ts";
import { createReasoningSeals } from "./accounts/reasoning-seals.ts";
import { createKekWatch } from "./accounts/rotate-kek.ts";
import {
  hubTokens,
  invoiceKeySeal,
  invoiceLinkKey,
  promptScopeKey,
  resultsLinkKey,
  ticketKeySeal,
  ticketSeals,
  voiceSamples,
  webhookSeal,
} from "./accounts/seals.ts";
import { readSecretFiles } from "./accounts/secret-files.ts";
import { createVoices } from "./assets/voices.ts";
import { createDirectory } from "./catalog/directory.ts";
import { openGpuCatalogue } from "./catalog/gpu-catalogue.ts";
import { createHubLook } from "./catalog/hub-look.ts";
import { createHubSearch } from "./catalog/hub-search.ts";
import { openModelCatalogue } from "./catalog/model-catalogue.ts";
import { type ControlPlaneConfig, readConfig } from "./config.ts";
import { createFleetMetrics } from "./deployments/fleet-metrics.ts";
import { createHubShape } from "./deployments/hub-shape.ts";
import { createDemoModels } from "./deployments/known-models.ts";
import { gpuTypesOn } from "./fleet/host.ts";
import { hostClockLimits } from "./fleet/host-clocks.ts";
import { readJoinSecret } from "./fleet/join-secret.ts";
import { createNodeWeights } from "./fleet/node-weights.ts";
import { openLeaseIds, voidedLeases } from "./fleet/open-leases.ts";
import { AddressLimits } from "./http/connections/address-limits.ts";
import { watchTls } from "./http/connections/public-tls.ts";
import { createAdminPages } from "./http/core/create-admin-http.ts";
import { createHttp } from "./http/core/create-http.ts";
import { drain, listenOn } from "./http/core/listen.ts";
import { createReadiness } from "./http/core/readiness.ts";
import { createColdStarts } from "./inference/cold-start.ts";
import { createRequestMemory } from "./inference/request-memory.ts";
import { limitOutageLines } from "./outage-log.ts";
import { createIncidents } from "./oversight/incidents.ts";
import { createOversight } from "./oversight/oversight.ts";
import { createTop } from "./oversight/top.ts";
import { createGrpcServer } from "./rpc/grpc-server.ts";
import { LiveFeed } from "./series/live-feed.ts";
import { RequestTally } from "./series/request-tally.ts";
import { createSeries } from "./series/series.ts";
import { createSeriesUpkeep } from "./series/upkeep.ts";
import { createSignals, topicOf } from "./signals/create-signals.ts";
import { createAccountStore } from "./store/accounts/accounts-store.ts";
import { createBackupNotes } from "./store/core/backup-notes.ts";
import { createChangeFeed } from "./store/core/change-feed.ts";
import { openDatabase, pingDatabase } from "./store/core/database.ts";
import { createKekStore } from "./store/core/kek-store.ts";
import { migrateDatabase } from "./store/core/migrate.ts";
import { createIncidentStore } from "./store/deployments/incident-store.ts";
import { createOversightStore } from "./store/deployments/oversight-store.ts";
import { createTopStore } from "./store/deployments/top-store.ts";
import { createFleetStore } from "./store/fleet/fleet-store.ts";
import { createNodeWeightsStore } from "./store/fleet/node-weights-store.ts";
import { createSeriesStore } from "./store/fleet/series-store.ts";
import { createCatalogStore } from "./store/models/catalog-store.ts";
import { createVoiceStore } from "./store/work/voices-store.ts";
import { createAccountFeatures, createOperatorFeatures, createTokens } from "./wiring/accounts.ts";
import { createAgents } from "./wiring/agent-instances.ts";
import { createAudit } from "./wiring/audit.ts";
import { openBatches } from "./wiring/batches.ts";
import { createBilling, paymentProvider } from "./wiring/billing.ts";
import { createReportDatabase, followDatabaseTime, runError, waitForDatabase } from "./wiring/database.ts";
import { createDeploymentFeatures } from "./wiring/deployments.ts";
import { openFiles } from "./wiring/files.ts";
import { createFleet } from "./wiring/fleet.ts";
import { createJobs, jobsAddress } from "./wiring/jobs.ts";
import { createMail } from "./wiring/mail.ts";
import { looping, type Module, type Modules, startAll, stopAll } from "./wiring/modules.ts";
import { createMoney } from "./wiring/money.ts";
import { createNodes } from "./wiring/nodes.ts";
import { addProcessMetrics, dieOnDefect, exitWithError, stopSignal } from "./wiring/process.ts";
import { createQuotas } from "./wiring/quotas.ts";
import { refreshOn } from "./wiring/refresh-loop.ts";
import { createResponseService } from "./wiring/responses.ts";
import { createRouter } from "./wiring/router.ts";
import { createWebhookService } from "./wiring/webhooks.ts";
import { type OwnWorker, openWorker, runWorkers, shareMetrics } from "./wiring/workers.ts";
import { keepFile } from "./write-file.ts";

/** Passed to every part of this process. */
interface Process {
  readonly config: ControlPlaneConfig;
  readonly log: Logger;
  readonly version: string;
  readonly registry: Registry;
  /** This process among several of one control plane; undefined: it is the only one. */
  readonly worker: OwnWorker | undefined;
  /** Undefined: traces are off. */
  readonly tracing: Tracing | undefined;
}

// Each step of the construction returns what the steps before it have created, and its own parts.
type Base = Awaited<ReturnType<typeof openBase>>;
type Core = Awaited<ReturnType<typeof createCore>>;
type Models = Awaited<ReturnType<typeof createModels>>;
type Parts = Awaited<ReturnType<typeof createWork>>;

async function main(): Promise<void> {
  const config = readConfig(process.env);
  // Written in the background because there is one line per request; flushed at the end.
  const log = pino({ level: config.logLevel, hooks: limitOutageLines() }, createLogDestination(1, 256));
  dieOnDefect(log);
  const stopping = stopSignal({ withParent: config.stopsWithParent, log });
  if (config.workers.count > 1 && config.workers.own === undefined) await superviseWorkers(config, log, stopping);
  const worker = openWorker(config.workers.own);
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));
  const registry = new Registry();
  addProcessMetrics(registry);
  const tracing = await openTracing(config.tracing, { service: "stoker-control-plane", version, log });

  await openGpuCatalogue(config.gpuTypes);
  const base = await openBase({ config, log, version, registry, worker, tracing }, stopping);
  const core = await createCore(base);
  const models = await createModels(core);
  const all = await createWork(models);
  // Only the first worker serves agents, at the port that its parent tells the others.
  const ports = { http: 0, admin: 0, rpc: config.rpc.port, pid: process.pid };
  const http = await createPublicEdge(all, () => ({ host: config.rpc.host, port: ports.rpc }));
  const grpc = createGrpcServer({ ...core.nodes.rpc, onStream: core.fleet.sessions.accept, log });
  const metrics = worker && shareMetrics(worker, config.workers.count, registry);
  const admin = createAdminPages(config, registry, core.fleetMetrics.targets, log, metrics);

  const modules = inStartOrder(all, { http, grpc, admin }, ports);
  await startAll(modules);
  if (config.portsFile) await keepFile(config.portsFile, `${JSON.stringify(ports)}\n`, log);
  worker?.reportPorts(ports);
  log.info({ ...ports, version, replica: core.money.replica.id }, "control plane started");

  if (!stopping.aborted) await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
  if (config.stopDelayMs > 0) {
    all.readiness.leave();
    await wait(config.stopDelayMs);
  }
  await stopAll(modules);
  log.info("control plane stopped");
  log.flush(() => process.exit(0));
}

/** Does not return: the parent of workers serves no requests. */
async function superviseWorkers(config: ControlPlaneConfig, log: Logger, stopping: AbortSignal): Promise<never> {
  const { portsFile, drainMs, stopDelayMs, workers } = config;
  const code = await runWorkers(
    {
      count: workers.count,
      env: process.env,
      drainMs: drainMs + stopDelayMs,
      onReady: async (ports) => {
        if (portsFile) await keepFile(portsFile, `${JSON.stringify({ ...ports, pid: process.pid })}\n`, log);
        log.info({ ...ports, workers: workers.count }, "control plane started");
      },
      log,
    },
    stopping,
  );
  await new Promise<void>((resolve) => log.flush(() => resolve()));
  return process.exit(code);
}

/** Database, secrets, accounts and the messages between replicas. */
async function openBase(own: Process, stopping: AbortSignal) {
  const { config, log, registry, worker } = own;
  const { databaseUrl } = config;
  const waiting = { url: databaseUrl, limitMs: config.databaseWaitMs, log, signal: stopping };
  await waitForDatabase(() => migrateDatabase(databaseUrl, { log, signal: stopping }), waiting);
  const database = openDatabase(databaseUrl, { maxConnections: config.databaseConnections, log });
  const { db, pool } = database;

  const time = await followDatabaseTime(db, log);
  const reportDatabase = createReportDatabase({ config, database, registry, log });
  await reportDatabase.check();

  const accountStore = createAccountStore(db);
  const secrets = readSecretFiles(config.secretsDir, await accountStore.hasAccounts());
  await checkSecrets(accountStore, secrets);
  const accounts = createAccounts({ store: accountStore, secrets });
  await makeFirstAccount({ store: accountStore, accounts, log }, config.adminKeyFile);
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  const credentials = createTokens({ db, accountStore, dataKeys, secrets, log });
  const joinSecret = readJoinSecret(config.secretsDir);
  const signals = createSignals({ redisUrl: config.redisUrl, worker, secret: joinSecret, registry, log });
  const feed = createChangeFeed({ pool, log, wake: topicOf(signals, "change") });
  const addresses = new AddressLimits(config.anonymous, addressTest(config.trustedProxies) ?? (() => false));
  const authenticator = createAuthenticator({
    store: accountStore,
    secrets,
    beforeLookUp: (ip) => addresses.check(ip),
    changes: feed,
    registry,
    log,
  });
  return {
    ...own,
    database,
    db,
    reportDatabase,
    time,
    accountStore,
    secrets,
    accounts,
    dataKeys,
    credentials,
    joinSecret,
    signals,
    feed,
    addresses,
    authenticator,
  };
}

/** Messages of `signals` reach other processes. */
const hasPeers = ({ config, worker }: Pick<Base, "config" | "worker">) =>
  config.redisUrl !== undefined || worker !== undefined;

/** Money, hosts and limits. */
async function createCore(base: Base) {
  const { config, log, registry, db, secrets, dataKeys, joinSecret, signals, feed } = base;
  const seal = ticketKeySeal(secrets);
  const tokens = hubTokens(dataKeys);
  const fleetStore = createFleetStore(db, seal);
  const nodes = await createNodes({
    db,
    fleetStore,
    secrets,
    standingSecret: joinSecret,
    agentTokenFile: config.agentTokenFile,
    certificateLifeMs: config.nodeCertificateMs,
    log,
  });
  const money = await createMoney({
    db,
    reportDb: base.reportDatabase.db,
    seals: ticketSeals(secrets),
    connections: config.databaseConnections,
    registry,
    changes: feed,
    openLeaseIds: () => openLeaseIds(fleetStore, config.sliceClockScale),
    voidedLeases: () => voidedLeases(fleetStore),
    hostLostMs: hostClockLimits.lostMs * config.hostClockScale,
    clockScale: config.sliceClockScale,
    tracing: base.tracing,
    fault: faultPoint(config.fault),
    log,
  });
  const mail = await createMail({
    db,
    smtp: config.smtp,
    publicUrl: config.publicUrl,
    pepper: secrets.pepper,
    log,
    registry,
  });
  const billing = createBilling({
    db,
    reportDb: base.reportDatabase.db,
    mail: mail?.alerts,
    provider: await paymentProvider(config),
    invoiceLinkKey: invoiceLinkKey(secrets),
    invoiceKeySeal: invoiceKeySeal(secrets),
    log,
  });
  const fleetMetrics = createFleetMetrics(registry);
  const limits = {
    leaseMs: hostClockLimits.leaseMs * config.hostClockScale,
    lostMs: hostClockLimits.lostMs * config.hostClockScale,
  };
  const queues = jobsAddress(config);
  const fleet = createFleet({
    db,
    feed,
    seal,
    openToken: tokens.open,
    settle: money.gpu.settle,
    holds: money.gpu.holds,
    owner: money.replica.id,
    dataPaths: { issue: nodes.issueGateway, mayBePlain: config.mayBePlain },
    limits,
    passedFormats: config.passedFormats,
    times: { leaseTtlMs: limits.leaseMs, renewEveryMs: limits.leaseMs / 4, reportEveryMs: limits.leaseMs / 4 },
    jobs: { address: queues, registry },
    log,
    onTransition: fleetMetrics.onTransition,
    tracing: base.tracing,
  });
  const quotas = createQuotas({
    db,
    feed,
    link: hasPeers(base) ? topicOf(signals, "rates") : undefined,
    defaults: config.quotas,
    gpuTypes: async () => [...gpuTypesOn(await fleet.snapshot())],
    log,
  });
  return { ...base, tokens, nodes, money, mail, billing, fleet, fleetMetrics, quotas };
}

/** Models, their prices, deployments and agent instances. */
async function createModels(core: Core) {
  const { config, log, registry, db, feed, tokens, secrets, money, billing, fleet, fleetMetrics } = core;
  const catalog = createCatalogStore(db);
  const catalogue = await openModelCatalogue(config.modelCatalogue, log);
  const directory = createDirectory(catalog, config.adapters.percent);
  const modelLoop = refreshOn(feed, ["deployment", "model", "price"], {
    what: "models",
    refresh: directory.refresh,
    everyMs: 10_000,
    untilStaleMs: () => directory.untilNextPriceMs,
    log,
  });
  const discountLoop = refreshOn(feed, ["price"], {
    what: "discounts",
    refresh: money.discounts.refresh,
    everyMs: 10_000,
    log,
  });
  const keks = createKekWatch({ store: createKekStore(db), secrets, replica: money.replica.id });
  const kekLoop = refreshOn(feed, ["kek"], {
    what: "key-encryption keys",
    refresh: keks.refresh,
    everyMs: 10_000,
    log,
  });
  fleetMetrics.watch({
    snapshot: fleet.snapshot,
    sessions: () => fleet.sessions.count,
    needsReconcile: fleet.needsReconcile,
    deployments: directory.countByStatus,
  });
  const readiness = createReadiness({
    ping: () => pingDatabase(db),
    loaded: { "the routing table": () => fleet.routing.isLoaded, "the list of models": () => directory.isLoaded },
  });

  const agents = createAgents({
    db,
    feed,
    fleet,
    config,
    prices: money.prices,
    funds: billing.left,
    firstMinutes: money.gpu.holds.firstMinutes,
    log,
  });
  const deployments = createDeploymentFeatures({
    db,
    feed,
    fleet,
    directory,
    catalog,
    tokens,
    funds: billing.left,
    firstMinutes: money.gpu.holds.firstMinutes,
    gpuDefaults: config.quotas.gpus,
    stats: money.stats,
    lookAtRepo: createHubLook(config.hubEndpoint),
    leastBytes: catalogue.leastBytes,
    demoModel: createDemoModels(config.demoModelsDirs),
    shapeOf: createHubShape(config.hubEndpoint),
    adapterUrlRules: { allowsPrivate: config.adapters.allowsPrivateUrls, blocked: config.webhooks.blocked },
    adapterIdleMs: config.adapters.idleMs,
    clockScale: config.scalingClockScale,
    sleepAfterSeconds: config.sleepAfterSeconds,
    registry,
    log,
  });
  return { ...core, catalogue, directory, modelLoop, discountLoop, keks, kekLoop, readiness, agents, deployments };
}

/** Work that outlives its request: batches, jobs, requests with a webhook, stored responses. */
async function createWork(models: Models) {
  const {
    config,
    log,
    registry,
    db,
    feed,
    accountStore,
    secrets,
    dataKeys,
    fleet,
    directory,
    billing,
    agents,
    money,
    mail,
  } = models;
  const queues = jobsAddress(config);
  const memory = createRequestMemory(config.memory, registry);
  const files = await openFiles({ db, settings: config.files, log });

  const batches = openBatches({
    db,
    jobs: queues,
    files,
    models: directory,
    routes: fleet.routing,
    accountStore,
    live: fleet.live,
    changes: feed,
    hasCapacity: memory.hasCapacity,
    clockScale: config.batchClockScale,
    log,
    registry,
  });

  const tally = new RequestTally();
  const seriesStore = createSeriesStore(db);
  const series = createSeriesUpkeep({ store: seriesStore, tally, replica: money.replica.id, log });

  const incidents = createIncidents({
    store: createIncidentStore(db),
    nodes: fleet.hostOperations.list,
    restores: fleet.restores.list,
    backupSchedules: agents.backupSchedules,
    settledAfterMs: 1.5 * hostClockLimits.leaseMs * config.hostClockScale,
  });

  const audit = await createAudit({ db, settings: config.audit, log });

  const jobs = createJobs({
    db,
    address: queues,
    retention: config.retention,
    closeMonths: billing.closeMonths,
    sealUsage: billing.usageSeals.run,
    watchLimits: billing.limitAlerts.watch,
    divideUsage: money.usageDays.divide,
    deliverMails: mail?.deliver,
    maintainBackups: agents.maintain,
    sweepFiles: files.sweep,
    maintainSeries: series.run,
    watchIncidents: incidents.watch,
    sealAudit: audit.seal,
    deliverAudit: audit.deliver,
    log,
    registry,
  });

  const webhooks = createWebhookService({
    db,
    accountStore,
    seal: webhookSeal(dataKeys),
    linkKey: resultsLinkKey(secrets),
    rules: config.webhooks,
    fault: faultPoint(config.fault),
    clockScale: config.webhooks.clockScale,
    // Half of a claim still exceeds the time of a delivery.
    claimScale: Math.max(0.5, config.webhooks.clockScale),
    maxKeptBytes: config.webhooks.maxKeptBytes,
    maxBodyBytes: config.memory.bodiesBytes / 2,
    hasCapacity: memory.hasCapacity,
    registry,
    log,
  });

  const responses = createResponseService({
    db,
    accountStore,
    dataKeys,
    maxBodyBytes: config.memory.bodiesBytes / 4,
    hasCapacity: memory.hasCapacity,
    clockScale: config.webhooks.clockScale,
    claimScale: Math.max(0.5, config.webhooks.clockScale),
    registry,
    log,
  });
  return { ...models, memory, files, batches, jobs, webhooks, responses, tally, seriesStore, series, incidents, audit };
}

async function createPublicEdge(all: Parts, agentAddress: () => { readonly host: string; readonly port: number }) {
  const { config, log, registry, version, db, secrets, accounts, dataKeys, credentials, authenticator, addresses } =
    all;
  const { signals, feed, nodes, money, billing, fleet, quotas, catalogue, directory, readiness, deployments, agents } =
    all;
  const { memory, files, batches, webhooks, responses, tally, seriesStore, incidents } = all;
  const operator = createOperatorFeatures(db, billing.funds);
  return createHttp({
    authenticator,
    addresses,
    maxConnections: config.maxConnections,
    tls: config.tls && (await watchTls(config.tls, log)),
    spine: {
      models: directory,
      rates: quotas.rates,
      routes: fleet.routing,
      router: createRouter(
        hasPeers(all) ? topicOf(signals, "prompts") : undefined,
        fleet.routing,
        promptScopeKey(secrets),
      ),
      ...money.spine,
      coldStarts: createColdStarts({
        routes: fleet.routing,
        ask: deployments.wake,
        onChange(listener) {
          feed.on("deployment", (id) => listener(id as DeploymentId));
          fleet.routing.onRefresh(() => listener(undefined));
        },
        limits: { maxBytes: memory.waitingBytes },
      }),
      answers: memory.answers,
      tracing: all.tracing,
      adapterUse: deployments.noteAdapterUse,
      standing: authenticator,
    },
    bodies: memory.bodies,
    dial: fleet.dial,
    deployments: deployments.deployments,
    placement: deployments.placement,
    providers: deployments.providers,
    containers: deployments.containers,
    adapters: deployments.adapters,
    aliases: deployments.aliases,
    mailServer: all.mail?.server,
    catalogue,
    hub: createHubSearch(config.hubEndpoint),
    modelRecords: deployments.modelRecords,
    ...agents.features,
    accounts,
    ...credentials,
    ...createAccountFeatures({
      db,
      secrets,
      accounts,
      dataKeys,
      isSignUpOpen: config.isSignUpOpen,
      mail: all.mail?.accountMail,
      log,
      tokens: credentials.tokens,
      deployments: fleet.deploymentStore,
      changes: feed,
      publicUrl: config.publicUrl,
      outbound: { blocked: config.webhooks.blocked, mayBePlain: config.mayBePlain, plainIssuers: config.plainIssuers },
    }),
    voices: createVoices({ store: createVoiceStore(db), seal: voiceSamples(dataKeys), changes: feed }),
    speechModel: config.speechModel,
    moderationModel: config.moderationModel,
    reasoning: createReasoningSeals(dataKeys),
    trustedProxies: config.trustedProxies,
    corsOrigins: config.corsOrigins,
    usage: money.usage,
    usageDays: money.usageDays,
    endUsers: money.endUsers,
    requestLog: money.requestLog,
    usageQuarantine: money.usageQuarantine,
    restores: fleet.restores,
    backupNotes: createBackupNotes(db),
    ...billing.verbs,
    publicUrl: config.publicUrl,
    invoiceSeller: config.invoiceSeller,
    isSignUpOpen: config.isSignUpOpen,
    enrolment: nodes.enrolment,
    agentAddress,
    hosts: fleet.hostOperations,
    drainPreview: fleet.drainPreview,
    oversight: createOversight({
      noteView: operator.operator.noteView,
      store: createOversightStore(db),
      deployments: deployments.deployments,
      containers: deployments.containers,
      agentInstances: agents.features.agentInstances,
    }),
    incidents,
    top: createTop({ store: createTopStore(db) }),
    nodeWeights: createNodeWeights(createNodeWeightsStore(db), fleet.fleetStore),
    series: createSeries({ store: seriesStore, reports: money.reports }),
    tally,
    rejections: money.rejections,
    auditChain: all.audit.chain,
    feed: new LiveFeed(seriesStore),
    quotas: quotas.desk,
    webhooks: webhooks.verbs,
    responses: responses.verbs,
    files,
    batches: batches.batches,
    prices: money.prices,
    discounts: money.discounts,
    ...operator,
    readiness: readiness.read,
    registry,
    log,
    version,
  });
}

interface Edges {
  readonly http: Awaited<ReturnType<typeof createHttp>>;
  readonly grpc: ReturnType<typeof createGrpcServer>;
  readonly admin: ReturnType<typeof createAdminPages>;
}

/** Modules in the order of their start. Sets `ports` as they listen. */
function inStartOrder(
  all: Parts,
  { http, grpc, admin }: Edges,
  ports: { http: number; admin: number; rpc: number },
): Modules {
  const { config, database, time, signals, feed, authenticator, keks, kekLoop, money, discountLoop, billing } = all;
  const { fleet, fleetMetrics, quotas, catalogue, directory, modelLoop, deployments, readiness, agents } = all;
  const { jobs, webhooks, responses, batches, series, worker } = all;
  // Controllers and agents need one process; with the first worker they start again.
  const onlyFirst = (module: Module): Module => (worker === undefined || worker.number === 1 ? module : {});
  return [
    { stop: () => all.tracing?.close() },
    { stop: database.close },
    { stop: all.reportDatabase.close },
    onlyFirst({
      start: async () => {
        ports.admin = await listenOn(admin, config.admin);
      },
      stop: () => admin.close(),
    }),
    { stop: () => signals.close() },
    feed,
    // Caches are read after the feed has started, so that no change is missed in between.
    { start: keks.refresh },
    { start: fleet.load },
    { start: directory.refresh },
    { start: money.discounts.refresh },
    { start: quotas.refresh },
    { start: agents.setPrices },
    { start: readiness.check },
    authenticator,
    // Starts before anything writes money, and gives slices back after the last usage records have come in.
    money,
    looping(time, all.reportDatabase, modelLoop, discountLoop, kekLoop, fleet, quotas, readiness, catalogue),
    onlyFirst(looping(fleet.control, deployments, agents, billing, fleetMetrics)),
    onlyFirst({
      start: async () => {
        ports.rpc = await grpc.listen(config.rpc.host, config.rpc.port);
      },
      stop: () => {
        fleet.sessions.close();
        return grpc.close();
      },
    }),
    onlyFirst(jobs),
    series,
    { stop: () => all.credentials.streams.stop() },
    {
      start: async () => {
        ports.http = await listenOn(http, config.http, worker !== undefined);
      },
      stop: () => drain(http, config.drainMs),
    },
    // Background work stops first, so that nothing new starts while open requests finish.
    [webhooks, responses, batches, { stop: fleet.stopTimers }],
  ];
}

await main().catch((error: unknown) => exitWithError(runError(error)));
