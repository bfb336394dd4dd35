// The control plane as one process. A straight list: configuration, database, features, edges, listen; the reverse on the
// way out. Environment: config.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { Registry } from "prom-client";
import { createLogDestination } from "../proto/log-destination.ts";
import { createAuthenticator } from "./accounts/authenticate.ts";
import { checkSecrets } from "./accounts/check-secrets.ts";
import { createAccounts } from "./accounts/create-account.ts";
import { createDataKeys } from "./accounts/data-keys.ts";
import { findOwnKey } from "./accounts/own-key.ts";
import { readSecretFiles } from "./accounts/secret-files.ts";
import { createDirectory } from "./catalog/directory.ts";
import { createHubLook } from "./catalog/hub-look.ts";
import { readConfig } from "./config.ts";
import { createWaker } from "./deployments/wake.ts";
import { hostClockLimits } from "./fleet/host-clocks.ts";
import { createNodeWeights } from "./fleet/node-weights.ts";
import { openLeaseIds, voidedLeases } from "./fleet/open-leases.ts";
import { createAdminHttp } from "./http/create-admin-http.ts";
import { createHttp } from "./http/create-http.ts";
import { createColdStarts } from "./inference/cold-start.ts";
import { createGrpcServer } from "./rpc/grpc-server.ts";
import { createAccountStore } from "./store/accounts-store.ts";
import { createCatalogStore } from "./store/catalog-store.ts";
import { createChangeFeed } from "./store/change-feed.ts";
import { openDatabase } from "./store/database.ts";
import { createFleetStore } from "./store/fleet-store.ts";
import { createKekStore } from "./store/kek-store.ts";
import { migrateDatabase } from "./store/migrate.ts";
import { createNodeWeightsStore } from "./store/node-weights-store.ts";
import { pingDatabase } from "./store/ping.ts";
import { createAdapterParts } from "./wiring/adapters.ts";
import { createAgents } from "./wiring/agent-instances.ts";
import { openBatches, spineOfLines } from "./wiring/batches.ts";
import { createBilling } from "./wiring/billing.ts";
import { createContainerVerbs } from "./wiring/container-verbs.ts";
import { dieOnDefect, tellAndExit } from "./wiring/defects.ts";
import { createAdminVerbs, createDeploymentVerbs } from "./wiring/deployment-verbs.ts";
import { openFiles } from "./wiring/files.ts";
import { makeFirstAccount } from "./wiring/first-account.ts";
import { createFleet } from "./wiring/fleet.ts";
import { createFleetMetrics } from "./wiring/fleet-metrics.ts";
import { drain, listenOn } from "./wiring/http-edges.ts";
import { createHubShape } from "./wiring/hub-shape.ts";
import { createJobs, jobsAddress } from "./wiring/jobs.ts";
import { readJoinSecret } from "./wiring/join-secret.ts";
import { createKekWatch } from "./wiring/kek-watch.ts";
import { createDemoModels } from "./wiring/known-models.ts";
import { createModelRecordVerbs } from "./wiring/model-records.ts";
import { createMoney } from "./wiring/money.ts";
import { answeringOperations } from "./wiring/node-operations.ts";
import { createNodes } from "./wiring/nodes.ts";
import { createOperator } from "./wiring/operator.ts";
import { paymentProvider } from "./wiring/payment-provider.ts";
import { createPeople } from "./wiring/people.ts";
import { createPlacementVerbs } from "./wiring/placement-verbs.ts";
import { addProcessMetrics } from "./wiring/process-metrics.ts";
import { createQuotas } from "./wiring/quotas.ts";
import { createReadiness } from "./wiring/readiness.ts";
import { refreshOn } from "./wiring/refresh-loop.ts";
import { createRequestMemory } from "./wiring/request-memory.ts";
import { createScaling } from "./wiring/scaling.ts";
import { hubTokens, invoiceLinkKey, resultsLinkKey, ticketKeySeal, webhookSeal } from "./wiring/seals.ts";
import { createSignals, topicOf } from "./wiring/signals.ts";
import { stopSignal } from "./wiring/stop-signal.ts";
import { createTokens } from "./wiring/tokens.ts";
import { wireVoices } from "./wiring/voices.ts";
import { waitForDatabase } from "./wiring/wait-for-database.ts";
import { createWebhookService } from "./wiring/webhooks.ts";
import { keepFile } from "./wiring/write-file.ts";

async function main(): Promise<void> {
  const config = readConfig(process.env);
  // One line per request: written in the background, and whole at the end.
  const log = pino({ level: config.logLevel }, createLogDestination(1, 256));
  dieOnDefect(log);
  const stopping = stopSignal({ withParent: config.stopsWithParent, log });
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));
  const registry = new Registry();
  addProcessMetrics(registry);

  // Database.
  const { databaseUrl } = config;
  const waiting = { url: databaseUrl, limitMs: config.databaseWaitMs, log, signal: stopping };
  await waitForDatabase(() => migrateDatabase(databaseUrl, { log }), waiting);
  const {
    db,
    pool,
    close: closeDatabase,
  } = openDatabase(databaseUrl, { maxConnections: config.databaseConnections, log });

  // Accounts.
  const accountStore = createAccountStore(db);
  const secrets = readSecretFiles(config.secretsDir, await accountStore.hasAccounts());
  await checkSecrets(accountStore, secrets);
  const accounts = createAccounts({ store: accountStore, secrets });
  await makeFirstAccount({ store: accountStore, accounts, log }, config.adminKeyFile);
  const tokenVerbs = createTokens({ db, accountStore, secrets });
  const joinSecret = readJoinSecret(config.secretsDir);
  const signals = createSignals({ redisUrl: config.redisUrl, secret: joinSecret, registry, log });
  const feed = createChangeFeed({ pool, log, wake: topicOf(signals, "change") });
  const authenticator = createAuthenticator({ store: accountStore, secrets, log, registry, changes: feed });

  // Money, fleet and models.
  const seal = ticketKeySeal(secrets);
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  const tokens = hubTokens(dataKeys);
  const fleetStore = createFleetStore(db, seal);
  const nodes = await createNodes({
    db,
    fleetStore,
    secrets,
    standingSecret: joinSecret,
    secretsDir: config.secretsDir,
    certificateLifeMs: config.nodeCertificateMs,
    log,
  });
  const money = await createMoney({
    db,
    connections: config.databaseConnections,
    registry,
    changes: feed,
    openLeaseIds: () => openLeaseIds(fleetStore, config.sliceClockScale),
    voidedLeases: () => voidedLeases(fleetStore),
    hostLostMs: hostClockLimits.lostMs * config.hostClockScale,
    clockScale: config.sliceClockScale,
    log,
  });
  const billing = createBilling({
    db,
    provider: paymentProvider(config),
    invoiceLinkKey: invoiceLinkKey(secrets),
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
    dataPaths: { issue: nodes.issueGateway, insistsOnTls: config.insistsOnTls },
    limits,
    times: { leaseTtlMs: limits.leaseMs, renewEveryMs: limits.leaseMs / 4, reportEveryMs: limits.leaseMs / 4 },
    jobs: { address: queues, registry },
    log,
    onTransition: fleetMetrics.onTransition,
  });
  const quotas = createQuotas({
    db,
    feed,
    link: config.redisUrl === undefined ? undefined : topicOf(signals, "rates"),
    defaults: config.quotas,
    log,
  });
  const catalog = createCatalogStore(db);
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
    hasRoom: memory.hasRoom,
    clockScale: config.batchClockScale,
    log,
    registry,
  });

  const jobs = createJobs({
    db,
    address: queues,
    retention: config.retention,
    closeMonths: billing.closeMonths,
    tendBackups: agents.tend,
    sweepFiles: files.sweep,
    log,
    registry,
  });

  const webhooks = createWebhookService({
    db,
    accountStore,
    seal: webhookSeal(dataKeys),
    linkKey: resultsLinkKey(secrets),
    rules: config.webhooks,
    clockScale: config.webhooks.clockScale,
    // Half of it is still longer than a call takes.
    claimScale: Math.max(0.5, config.webhooks.clockScale),
    mostKeptBytes: config.webhooks.mostKeptBytes,
    mostBodyBytes: config.memory.bodiesBytes / 2,
    hasRoom: memory.hasRoom,
    registry,
    log,
  });

  // Edges.
  const verbDeps = {
    demoModel: createDemoModels(config.demoModelsDir),
    fleet,
    directory,
    catalog,
    tokens,
    funds: billing.left,
    firstMinutes: money.gpu.holds.firstMinutes,
    gpuDefaults: config.quotas.gpus,
    stats: money.stats,
    lookAtRepo: createHubLook(config.hubEndpoint),
    shapeOf: createHubShape(config.hubEndpoint),
  };
  const scaling = createScaling({ ...verbDeps, clockScale: config.scalingClockScale, log });
  const adapters = createAdapterParts({
    ...verbDeps,
    db,
    feed,
    askForInstance: createWaker({ ...verbDeps, store: fleet.deploymentStore }),
    idleMs: config.adapters.idleMs,
    urlRules: { allowsPrivate: config.adapters.allowsPrivateUrls, blocked: config.webhooks.blocked },
    log,
  });
  const http = await createHttp({
    authenticator,
    spine: {
      models: directory,
      budgets: money.budgets,
      discounts: money.discounts,
      rates: quotas.rates,
      routes: fleet.routing,
      delivered: money.delivered,
      labels: money.labels,
      replicaId: money.replica.id,
      coldStarts: createColdStarts({
        routes: fleet.routing,
        ask: adapters.ask,
        limits: { mostBytes: memory.waitingBytes },
      }),
      answers: memory.answers,
      adapterUse: adapters.noteUse,
      standing: authenticator,
    },
    ...{ bodies: memory.bodies, dial: fleet.dial },
    deployments: createDeploymentVerbs(verbDeps),
    modelRecords: createModelRecordVerbs({ ...verbDeps, db }),
    adapters: adapters.verbs,
    placement: createPlacementVerbs({ ...verbDeps, db }),
    containers: createContainerVerbs({ ...verbDeps, db }),
    ...agents.verbs,
    accounts: {
      create: accounts.createAccount,
      findOwnKey: (account, secretOrId) => findOwnKey({ store: accountStore, secrets }, account, secretOrId),
    },
    ...tokenVerbs,
    ...createPeople({
      db,
      secrets,
      accounts,
      isSignUpOpen: config.isSignUpOpen,
      tokens: tokenVerbs.tokens,
      deployments: fleet.deploymentStore,
      changes: feed,
    }),
    voices: wireVoices(db, dataKeys, feed),
    speechModel: config.speechModel,
    trustedProxies: config.trustedProxies,
    ...{ usage: money.usage, usageDays: money.usageDays, requestLog: money.requestLog },
    ...billing.verbs,
    publicUrl: config.publicUrl,
    isSignUpOpen: config.isSignUpOpen,
    admin: createAdminVerbs(verbDeps),
    enrolment: nodes.enrolment,
    hosts: answeringOperations(fleet.hostOperations),
    nodeWeights: createNodeWeights(createNodeWeightsStore(db), fleet.fleetStore),
    quotas: quotas.desk,
    webhooks: webhooks.verbs,
    files,
    batches: batches.verbs,
    spineOfLines,
    prices: money.prices,
    discounts: money.discounts,
    ...createOperator({ db, funds: billing.funds }),
    readiness: readiness.read,
    registry,
    log,
    version,
  });
  const grpc = createGrpcServer({ ...nodes.rpc, onStream: fleet.sessions.accept, log });
  const admin = createAdminHttp(registry, fleetMetrics.targets);

  // What is cached is read after the feed has begun, so that no change falls between.
  await feed.start();
  await keks.refresh();
  await fleet.load();
  await directory.refresh();
  await money.discounts.refresh();
  await quotas.refresh();
  await agents.setPrices();
  await readiness.look();
  authenticator.start();
  await money.start();
  jobs.start();
  batches.start();
  webhooks.start();
  const ports = {
    http: await listenOn(http, config.http),
    admin: await listenOn(admin, config.admin),
    rpc: await grpc.listen(config.rpc.host, config.rpc.port),
    pid: process.pid,
  };
  const ending = new AbortController();
  const loops = Promise.all([
    fleet.run(ending.signal),
    scaling.run(ending.signal),
    adapters.run(ending.signal),
    ...[modelLoop, discountLoop, kekLoop].map((loop) => loop.run(ending.signal)),
    quotas.run(ending.signal),
    agents.run(ending.signal),
    billing.run(ending.signal),
    readiness.run(ending.signal),
    fleetMetrics.run(ending.signal),
  ]);
  if (config.portsFile) await keepFile(config.portsFile, `${JSON.stringify(ports)}\n`, log);
  log.info({ ...ports, version, replica: money.replica.id }, "the control plane serves");

  // The way out: nothing new, what runs is finished, slices go back.
  if (!stopping.aborted) await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
  await Promise.all([webhooks.stop(), batches.stop(), fleet.stopTimers()]);
  await drain(http, config.drainMs);
  await jobs.stop();
  fleet.sessions.close();
  await grpc.close();
  await money.stop();
  await authenticator.stop();
  ending.abort();
  await loops;
  await feed.stop();
  await signals.close();
  await admin.close();
  await closeDatabase();
  log.info("the control plane has stopped");
  log.flush(() => process.exit(0));
}

await main().catch(tellAndExit);
