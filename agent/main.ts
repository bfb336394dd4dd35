// The agent of one host as a process. A straight list: configuration, state, data path, drivers, loop, session; the reverse
// at shutdown. Model servers keep running unless STOKER_STOP_INSTANCES is set. Environment: config.ts.
import { mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { pino } from "pino";
import { isLoopbackHost } from "../proto/address-rules.ts";
import { readBearerSecret } from "../proto/bearer-secret.ts";
import type { DesiredState__Output } from "../proto/gen/stoker/fleet/v1/DesiredState.ts";
import { createLogDestination } from "../proto/log-destination.ts";
import { createAdapterFiles } from "./adapters/adapter-files.ts";
import { Adapters } from "./adapters/adapters.ts";
import { lastSuccess } from "./backups/backups.ts";
import { readConfig } from "./config.ts";
import { gpuLoadProbe } from "./fingerprint/gpu-load.ts";
import { HostInventory } from "./fingerprint/inventory.ts";
import { openKernelLog } from "./fingerprint/kernel-log.ts";
import { createXidWatch } from "./fingerprint/xid.ts";
import { Ingress } from "./ingress/create-ingress.ts";
import { createGpuMeter } from "./metering/gpu-meter.ts";
import { createAgentMetrics } from "./metrics/agent-metrics.ts";
import { createEnginePages } from "./metrics/engine-pages.ts";
import { addGpuMetrics } from "./metrics/gpu-metrics.ts";
import { startMetricsServer } from "./metrics/metrics-server.ts";
import { addUsageMetrics } from "./metrics/usage-metrics.ts";
import { createProbe } from "./reconcile/health.ts";
import { Reconciler } from "./reconcile/loop.ts";
import { watchLimits } from "./reconcile/progress.ts";
import { createCanary } from "./reconcile/watch-progress.ts";
import { lockFolder } from "./state/folder-lock.ts";
import { openState } from "./state/open-state.ts";
import { announcedOrigin, choosePort, metricsAddress, writeAgentFile } from "./wiring/agent-file.ts";
import { createControl, firstDesired } from "./wiring/control.ts";
import {
  chooseDriver,
  containerRules,
  createDrivers,
  engineNames,
  isolationTrouble,
  measuredDriver,
} from "./wiring/drivers.ts";
import { inspection, plainWarning } from "./wiring/inspection.ts";
import { gpuFaults, recordTrouble, recordTroubleChanges, watchInventory } from "./wiring/inventory-watch.ts";
import { bootId, dieOnDefect, reportAndExit, stopSignal } from "./wiring/process.ts";
import { createRentals } from "./wiring/rentals.ts";
import { Samples } from "./wiring/samples.ts";
import { hostVolumes, volumeExecutors } from "./wiring/volumes.ts";
import { createHostWeights, dropOldGraphs } from "./wiring/weights.ts";

/** Time that a model server has to end when it is stopped with the agent; its requests were drained before. */
const instanceGraceMs = 5_000;
const flushMs = 2_000;

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = pino({ level: config.logLevel }, createLogDestination(2, 64));
  dieOnDefect(log);
  if (config.isPlain) log.warn(plainWarning);
  const stopping = stopSignal({ withParent: config.stopsWithParent, log });
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));
  const lastBackup = lastSuccess(config.dataDir, log);
  const metrics = createAgentMetrics(lastBackup.read());

  // State and what this host has.
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const lock = await lockFolder(config.dataDir, log);
  const state = await openState(join(config.dataDir, "state.db"), log, Date.now, config.keep);
  const hostId = state.session.hostId();
  const kernelLog = openKernelLog();
  const xids = createXidWatch(kernelLog, log);
  await xids.look(AbortSignal.timeout(10_000));
  const rentals = await createRentals(config, hostId, log);
  let metricsPort = config.metricsPort;
  const fingerprint = new HostInventory({
    dataDir: config.dataDir,
    overrides: { gpus: config.gpus, gpuMemoryBytes: config.gpuMemoryBytes },
    engines: engineNames(config),
    hostname: config.nodeName,
    xids,
    bootId: bootId(),
    rentals: rentals.offer,
    rentalsUseGpus: config.rentals.devices === "nvidia",
    containers: (dockerVersion) => containerRules(config, dockerVersion),
    isolation: (dockerVersion) => isolationTrouble(config, dockerVersion, hostId, log),
    metricsAddress: () => metricsAddress(config, metricsPort),
    recordsUnavailable: () => recordTrouble(state.spool),
    log,
  });
  const hasRecordNews = recordTroubleChanges(state.spool);
  const lookForTrouble = async (signal: AbortSignal) => [await xids.look(signal), hasRecordNews()].includes(true);
  const inventory = await watchInventory(fingerprint, lookForTrouble, AbortSignal.timeout(30_000), () =>
    control.reportSoon(),
  );
  if (config.driver === "auto") await inventory.untilClear(AbortSignal.timeout(120_000));
  const found = inventory.current();
  metrics.info({
    version,
    node: config.nodeName,
    driver_version: found.nvidiaDriverVersion ?? "",
    cuda_version: found.cudaVersion ?? "",
    docker_version: found.dockerVersion ?? "",
  });
  const driverName = chooseDriver(config, found.dockerVersion ?? "");
  const plain = await createDrivers(driverName, config, hostId, log, rentals.driver);
  const volumes = hostVolumes(config, driverName, hostId, log);
  const driver = measuredDriver(volumes?.withVolumes(plain) ?? plain, metrics.registry);

  // Control, data path and loop know each other through these.
  let reconciler: Reconciler;
  let ingressPort = 0;
  const backups = await volumes?.backups(
    () => reconciler,
    (op, seconds) => {
      metrics.backedUp(op, seconds);
      if (op === "create") lastBackup.note();
    },
  );
  const weights = createHostWeights(
    config,
    {
      neighbours: (repo, signal) => control.neighbours(repo, signal),
      dialNeighbour: (to) => control.tls?.dial(to) ?? {},
    },
    metrics,
    log,
  );
  const graphsDir = join(config.dataDir, "graphs");
  const adaptersDir = join(config.dataDir, "adapters");
  const adapters = new Adapters({
    ensure: (wanted, signal) => weights.ensure(wanted, () => {}, signal),
    files: createAdapterFiles(adaptersDir, driverName === "docker"),
    onNews: () => control.reportSoon(),
    clock: () => performance.now(),
    log,
  });
  const obey = (wanted: DesiredState__Output) => {
    weights.setDesired(wanted);
    adapters.setDesired(wanted);
    void dropOldGraphs(graphsDir, new Set(wanted.instances.map(({ deployId }) => deployId)), Date.now());
    reconciler.setDesired(wanted);
  };
  const engines = createEnginePages(config.nodeName, () => performance.now());
  const samples = new Samples({
    node: config.nodeName,
    dataDir: config.dataDir,
    image: driverName === "docker" ? config.runtimeImage : "",
    looksForDcgm: config.gpuMetrics === "dcgm",
    inventory,
    xids: () => xids.xids,
    instances: () => reconciler.report()?.instances ?? [],
    engines,
    log,
  });
  const advertise = () => announcedOrigin(config, ingressPort);
  const control = createControl({
    config,
    version,
    state,
    // The page may listen only after the inventory was read, and its address must not be reported a minute late.
    inventory: () => ({ ...inventory.current(), metricsAddress: metricsAddress(config, metricsPort) }),
    advertise,
    reconciler: () => ({ report: reconciler.report, setDesired: obey, hold: reconciler.hold }),
    weights: weights.report,
    adapters: adapters.report,
    samples: () => samples,
    executors: volumeExecutors(backups),
    answered: metrics.commanded,
    isStopping: () => stopping.aborted,
    log,
  });
  metrics.observe({
    errors: samples.errors,
    session: control.state,
    clock: () => control.clock,
    certificateSecondsLeft: control.certificateSecondsLeft,
    spool: () => state.spool.depth(),
  });
  const ingress = new Ingress({
    host: config.ingressHost,
    port: await choosePort(config.dataDir, config.ingressHost, config.ingressPort),
    hostId,
    tls: config.ingressTls ? control.tls?.ingress : undefined,
    keys: control.keys,
    nodeEpoch: control.nodeEpoch,
    controlTimeMs: control.clock.nowMs,
    ticketTimeMs: control.clock.ticketTimeMs,
    spool: state.spool,
    logs: (id, range, signal) => driver.logs(id, range, signal),
    weights: weights.serve,
    log,
    metrics: metrics.registry,
    limits: {
      maxHeldBodyBytes: config.bodyMemoryBytes,
      ...(config.queueLimit === undefined ? {} : { queueLimit: config.queueLimit }),
    },
    fault: config.fault,
  });
  const meter = createGpuMeter({
    store: state.meter,
    monotonicMs: () => performance.now(),
    controlTimeMs: control.clock.nowMs,
    nodeEpoch: control.nodeEpoch,
    log,
  });
  const gpuLoad = gpuLoadProbe();
  reconciler = new Reconciler({
    meter: config.control ? meter : undefined,
    driver,
    weights,
    dataPath: {
      ...ingress,
      setTargets(targets) {
        ingress.setTargets(targets);
        engines.setTargets(targets);
        adapters.setTargets(targets);
      },
    },
    probe: createProbe(),
    progress: { canary: createCanary(), limits: watchLimits },
    gpuMemory: { read: (signal) => gpuLoad.read(signal), limitMs: 60_000, everyMs: 1_000 },
    gpuFaults: gpuFaults(inventory, xids, gpuLoad.read),
    host: {
      driver: driverName,
      runtimeImage: config.runtimeImage,
      engineImages: config.engineImages,
      allowedImages: config.allowedImages,
      filesDir: join(config.dataDir, "files"),
      adaptersDir,
      graphsDir,
      logLevel: config.logLevel,
      volumesDir: volumes?.folder,
      ...(rentals.driver ? { rentals: config.rentals } : {}),
    },
    events: metrics,
    clock: () => performance.now(),
    controlTimeMs: control.clock.nowMs,
    random: Math.random,
    drainMs: 30_000,
    onNews: control.reportSoon,
    log,
  });

  await backups
    ?.recover(AbortSignal.timeout(60_000))
    .catch((err) => log.error({ err }, "volumes could not be looked after"));

  // Serving begins from what was kept, before any session; a fenced agent begins nothing.
  reconciler.hold(control.state().isFenced);
  const desired = firstDesired(config, state, log);
  if (desired) obey(desired);
  ingressPort = (await ingress.listen()).port;
  addGpuMetrics(metrics.registry, config.gpuMetrics, samples.gpuFacts);
  addUsageMetrics(metrics.registry, () => samples.host.value, samples.used);
  const { metricsTokenFile } = config;
  const metricsToken = metricsTokenFile === undefined ? undefined : readBearerSecret(metricsTokenFile);
  if (!metricsToken && !isLoopbackHost(config.metricsHost))
    log.warn(
      { host: config.metricsHost },
      "metrics pages are open to other machines: set STOKER_AGENT_METRICS_TOKEN_FILE",
    );
  const page = await startMetricsServer({
    pages: {
      "/metrics": { contentType: metrics.registry.contentType, render: () => metrics.registry.metrics() },
      "/metrics/runtime": { contentType: metrics.registry.contentType, render: engines.page },
      "/inspect": {
        contentType: "application/json",
        isLocal: true,
        render: () =>
          JSON.stringify(
            inspection({
              hostId,
              node: config.nodeName,
              version,
              driver: driverName,
              addresses: config.control?.addresses ?? [],
              advertise,
              isPlain: config.isPlain,
              inventory: inventory.current,
              control,
              spool: state.spool,
              samples,
              report: reconciler.report,
            }),
          ),
      },
    },
    host: config.metricsHost,
    port: config.metricsPort,
    took: metrics.served,
    token: metricsToken,
  });
  metricsPort = page.port;
  const address = {
    ingress_port: ingressPort,
    metrics_host: config.metricsHost,
    metrics_port: page.port,
    ...(metricsTokenFile === undefined ? {} : { metrics_token_file: resolve(metricsTokenFile) }),
  };
  writeAgentFile(config.dataDir, { pid: process.pid, ...address, host_id: hostId }, log);
  const loopEnding = new AbortController();
  const sessionEnding = new AbortController();
  const loop = Promise.all([
    reconciler.run(loopEnding.signal),
    adapters.run(loopEnding.signal),
    inventory.run(loopEnding.signal),
    samples.run(loopEnding.signal),
  ]);
  const session = control.run(sessionEnding.signal);
  log.info({ hostId, version, driver: driverName, ingressPort, metricsPort: page.port }, "the agent serves");

  // Shutdown: accept and start nothing new, finish running requests, send their usage.
  if (!stopping.aborted) await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
  setTimeout(() => process.exit(1), config.drainMs + 2 * instanceGraceMs + 10_000).unref();
  control.reportSoon();
  loopEnding.abort();
  const volumesLeft = Promise.race([backups?.close(), wait(config.drainMs)]);
  await Promise.all([loop, ingress.close(config.drainMs), volumesLeft]);
  if (config.stopsInstances) await reconciler.stopInstances(instanceGraceMs, AbortSignal.timeout(3 * instanceGraceMs));
  for (let waited = 0; control.state().isConnected && state.spool.depth().records > 0 && waited < flushMs; waited += 50)
    await wait(50);
  sessionEnding.abort();
  await session;
  await page.close();
  await weights.close();
  await driver.close();
  await kernelLog.close();
  await meter.close();
  await state.close();
  lock.release();
  log.info("the agent has stopped");
  log.flush(() => process.exit(0));
}

await main().catch(reportAndExit);
