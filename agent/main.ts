// The agent of one host as a process: its state and drivers (openHost), then control, data path and loop (wireAgent); ended in
// the reverse order. Model servers keep running unless STOKER_STOP_INSTANCES is set. Environment: config.ts.
import { mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type Logger, pino } from "pino";
import { isLoopbackHost } from "../proto/address-rules.ts";
import { readBearerSecret } from "../proto/bearer-secret.ts";
import { faultPoint, withPoints } from "../proto/fault-point.ts";
import type { DesiredState__Output } from "../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../proto/ids.ts";
import { createLogDestination } from "../proto/log-destination.ts";
import { openTracing } from "../proto/open-tracing.ts";
import type { Tracing } from "../proto/tracing.ts";
import { createAdapterFiles } from "./adapters/adapter-files.ts";
import { Adapters } from "./adapters/adapters.ts";
import { lastSuccess } from "./backups/backups.ts";
import { type AgentConfig, readConfig } from "./config.ts";
import { allGpuLoads } from "./fingerprint/all-gpus.ts";
import { HostInventory } from "./fingerprint/inventory.ts";
import { openKernelLog } from "./fingerprint/kernel-log.ts";
import { createXidWatch } from "./fingerprint/xid.ts";
import { Ingress, type IngressOptions } from "./ingress/ingress.ts";
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
  hostOptionsOf,
  isolationTrouble,
  measuredDriver,
} from "./wiring/drivers.ts";
import { enginePrograms } from "./wiring/engine-programs.ts";
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

interface Process {
  readonly config: AgentConfig;
  readonly log: Logger;
  readonly version: string;
  /** Undefined: traces are off. */
  readonly tracing: Tracing | undefined;
  readonly isStopping: () => boolean;
  /** Set once they listen. */
  readonly ports: { ingress: number; metrics: number };
}

type Host = Awaited<ReturnType<typeof openHost>>;
type Agent = Awaited<ReturnType<typeof wireAgent>>;

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = pino({ level: config.logLevel }, createLogDestination(2, 64));
  dieOnDefect(log);
  if (config.isPlain) log.warn(plainWarning);
  const stopping = stopSignal({ withParent: config.stopsWithParent, log });
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));
  const ports = { ingress: 0, metrics: config.metricsPort };
  const tracing = await openTracing(config.tracing, { service: "stoker-agent", version, log });
  const own: Process = { config, log, version, tracing, isStopping: () => stopping.aborted, ports };
  let agent: Agent | undefined;
  const host = await openHost(own, () => agent?.control.reportSoon());
  agent = await wireAgent(own, host);
  const { backups, control, reconciler, ingress } = agent;

  await backups
    ?.recover(AbortSignal.timeout(60_000))
    .catch((err) => log.error({ err }, "volumes could not be looked after"));

  // Serving begins from what was kept, before any session; a fenced agent begins nothing.
  reconciler.hold(control.state().isFenced);
  const desired = firstDesired(config, host.state, log);
  if (desired) agent.obey(desired);
  ports.ingress = (await ingress.listen()).port;
  const page = await openPages(own, host, agent);
  ports.metrics = page.port;
  const address = {
    ingress_port: ports.ingress,
    metrics_host: config.metricsHost,
    metrics_port: page.port,
    ...(config.metricsTokenFile === undefined ? {} : { metrics_token_file: resolve(config.metricsTokenFile) }),
  };
  writeAgentFile(config.dataDir, { pid: process.pid, ...address, host_id: host.hostId }, log);
  const loopEnding = new AbortController();
  const sessionEnding = new AbortController();
  const loop = Promise.all([
    reconciler.run(loopEnding.signal),
    agent.adapters.run(loopEnding.signal),
    host.inventory.run(loopEnding.signal),
    agent.samples.run(loopEnding.signal),
  ]);
  const session = control.run(sessionEnding.signal);
  const { hostId, driverName: driver } = host;
  log.info({ hostId, version, driver, ingressPort: ports.ingress, metricsPort: page.port }, "the agent serves");

  // Shutdown: accept and start nothing new, finish running requests, send their usage.
  if (!stopping.aborted) await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
  setTimeout(() => process.exit(1), config.drainMs + 2 * instanceGraceMs + 10_000).unref();
  control.reportSoon();
  loopEnding.abort();
  const volumesLeft = Promise.race([backups?.close(), wait(config.drainMs)]);
  await Promise.all([loop, ingress.close(config.drainMs), volumesLeft]);
  if (config.stopsInstances) await reconciler.stopInstances(instanceGraceMs, AbortSignal.timeout(3 * instanceGraceMs));
  for (
    let waited = 0;
    control.state().isConnected && host.state.spool.depth().records > 0 && waited < flushMs;
    waited += 50
  )
    await wait(50);
  sessionEnding.abort();
  await session;
  await page.close();
  await agent.weights.close();
  await host.driver.close();
  await host.kernelLog.close();
  await agent.meter.close();
  await host.state.close();
  await tracing?.close();
  host.lock.release();
  log.info("the agent has stopped");
  log.flush(() => process.exit(0));
}

/** State of this agent, what its host has, and the driver of its model servers. */
async function openHost({ config, log, version, ports }: Process, reportSoon: () => void) {
  const lastBackup = lastSuccess(config.dataDir, log);
  const metrics = createAgentMetrics(lastBackup.read());
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const lock = await lockFolder(config.dataDir, log);
  const state = await openState(join(config.dataDir, "state.db"), log, Date.now, config.keep);
  const hostId = state.session.hostId();
  const kernelLog = openKernelLog();
  const xids = createXidWatch(kernelLog, log);
  await xids.look(AbortSignal.timeout(10_000));
  const rentals = await createRentals(config, hostId, log);
  const fingerprint = new HostInventory({
    dataDir: config.dataDir,
    overrides: { gpus: config.gpus, gpuMemoryBytes: config.gpuMemoryBytes },
    ...hostOptionsOf(config),
    engines: (dockerVersion) => engineNames(config, dockerVersion),
    hostname: config.nodeName,
    xids,
    bootId: bootId(),
    rentals: rentals.offer,
    rentalsUseGpus: config.rentals.devices === "nvidia",
    containers: (dockerVersion) => containerRules(config, dockerVersion),
    isolation: (dockerVersion) => isolationTrouble(config, dockerVersion, hostId, log),
    metricsAddress: () => metricsAddress(config, ports.metrics),
    recordsUnavailable: () => recordTrouble(state.spool),
    log,
  });
  const hasRecordNews = recordTroubleChanges(state.spool);
  const lookForTrouble = async (signal: AbortSignal) => [await xids.look(signal), hasRecordNews()].includes(true);
  const inventory = await watchInventory(fingerprint, lookForTrouble, AbortSignal.timeout(30_000), reportSoon);
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
  const plain = await createDrivers(driverName, config, { hostId, podSeal: state.podSeal }, log, rentals.driver);
  const volumes = hostVolumes(config, driverName, hostId, log);
  const measured = measuredDriver(volumes?.withVolumes(plain) ?? plain, metrics.registry);
  const driver = withPoints(measured, "start", faultPoint<"after_start">(config.fault), { after: "after_start" });
  return {
    lastBackup,
    metrics,
    lock,
    state,
    hostId,
    kernelLog,
    xids,
    rentals,
    fingerprint,
    inventory,
    driverName,
    volumes,
    driver,
  };
}

/** Control, data path and loop, which know each other. */
async function wireAgent({ config, log, version, tracing, isStopping, ports }: Process, host: Host) {
  const { lastBackup, metrics, state, xids, inventory, driverName, volumes } = host;
  let reconciler: Reconciler;
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
  const adapters = new Adapters({
    ensure: (wanted, signal) => weights.ensure(wanted, () => {}, signal),
    files: createAdapterFiles(adaptersDirOf(config), driverName !== "process"),
    onNews: () => control.reportSoon(),
    clock: () => performance.now(),
    log,
  });
  const obey = (wanted: DesiredState__Output) => {
    weights.setDesired(wanted);
    adapters.setDesired(wanted);
    void dropOldGraphs(graphsDirOf(config), new Set(wanted.instances.map(({ deployId }) => deployId)), Date.now());
    reconciler.setDesired(wanted);
    ingress.allowTerminals(terminalInstances(wanted));
  };
  const engines = createEnginePages(config.nodeName, () => performance.now());
  const samples = new Samples({
    node: config.nodeName,
    dataDir: config.dataDir,
    image: driverName === "docker" ? config.runtimeImage : "",
    looksForDcgm: config.gpuMetrics === "dcgm",
    hidesGpuMemory: areGpusChosenElsewhere(config),
    inventory,
    xids: () => xids.xids,
    instances: () => reconciler.report()?.instances ?? [],
    engines,
    log,
  });
  const advertise = () => announcedOrigin(config, ports.ingress);
  const control = createControl({
    config,
    version,
    state,
    // The page may listen only after the inventory was read, and its address must not be reported a minute late.
    inventory: () => ({ ...inventory.current(), metricsAddress: metricsAddress(config, ports.metrics) }),
    advertise,
    reconciler: () => ({ report: reconciler.report, setDesired: obey, hold: reconciler.hold }),
    weights: weights.report,
    adapters: adapters.report,
    samples: () => samples,
    executors: volumeExecutors(backups),
    answered: metrics.commanded,
    isStopping,
    log,
  });
  metrics.observe({
    errors: samples.errors,
    session: control.state,
    clock: () => control.clock,
    certificateSecondsLeft: control.certificateSecondsLeft,
    spool: () => state.spool.depth(),
  });
  const ingress = await createDataPath({ config, log, tracing }, host, control, weights.serve);
  const meter = createGpuMeter({
    store: state.meter,
    monotonicMs: () => performance.now(),
    controlTimeMs: control.clock.nowMs,
    nodeEpoch: control.nodeEpoch,
    log,
  });
  reconciler = new Reconciler({
    ...loopPartsOf(config, host),
    meter: config.control ? meter : undefined,
    weights,
    dataPath: {
      ...ingress,
      setTargets(targets) {
        ingress.setTargets(targets);
        engines.setTargets(targets);
        adapters.setTargets(targets);
      },
    },
    controlTimeMs: control.clock.nowMs,
    onNews: control.reportSoon,
    tracing,
    log,
  });
  return { backups, weights, adapters, obey, engines, samples, advertise, control, ingress, meter, reconciler };
}

type Control = ReturnType<typeof createControl>;

async function createDataPath(
  { config, log, tracing }: Pick<Process, "config" | "log" | "tracing">,
  { hostId, state, driver, metrics }: Host,
  control: Control,
  weights: NonNullable<IngressOptions["weights"]>,
) {
  return new Ingress({
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
    openShell: config.allowsTerminals ? driver.openShell : undefined,
    weights,
    log,
    tracing,
    metrics: metrics.registry,
    limits: {
      maxHeldBodyBytes: config.bodyMemoryBytes,
      ...(config.queueLimit === undefined ? {} : { queueLimit: config.queueLimit }),
    },
    fault: config.fault,
  });
}

/** Dependencies of the reconciliation loop on this host. */
function loopPartsOf(
  config: AgentConfig,
  { metrics, xids, fingerprint, inventory, rentals, driverName, volumes, driver }: Host,
) {
  const gpuLoad = allGpuLoads();
  const areChosenElsewhere = areGpusChosenElsewhere(config);
  return {
    driver,
    probe: createProbe(),
    progress: { canary: createCanary(), limits: watchLimits },
    gpuMemory: {
      read: async (signal: AbortSignal) => (areChosenElsewhere ? [] : gpuLoad.read(signal)),
      limitMs: 60_000,
      everyMs: 1_000,
    },
    gpuFaults: areChosenElsewhere ? async () => [] : gpuFaults(inventory, xids, gpuLoad.read),
    host: {
      driver: driverName,
      runtimeImage: config.runtimeImage,
      engineImages: config.engineImages,
      vendorImages: config.vendorImages,
      gpuAccess: fingerprint.gpuAccess,
      cdiDevices: fingerprint.cdiDevices,
      enginePrograms: enginePrograms(config),
      allowedImages: config.allowedImages,
      filesDir: join(config.dataDir, "files"),
      adaptersDir: adaptersDirOf(config),
      graphsDir: graphsDirOf(config),
      logLevel: config.logLevel,
      volumesDir: volumes?.folder,
      ...(rentals.driver ? { rentals: config.rentals } : {}),
    },
    metrics,
    minAwakeMs: config.minAwakeMs,
    clock: () => performance.now(),
    random: Math.random,
    drainMs: 30_000,
    stopGraceMs: 10_000,
  };
}

/** A device plugin chooses the cards itself: what is known of the planned ones may be about a neighbour's. */
const areGpusChosenElsewhere = ({ driver, kubernetes }: AgentConfig) =>
  driver === "kubernetes" && kubernetes.gpus.kind === "resource";

/** Containers that belong to an account, not to a model that several may use. */
function terminalInstances({ instances, tombstones }: DesiredState__Output): ReadonlySet<InstanceId> {
  const own = instances.filter(({ engine }) => engine === "container" || engine === "agent_instance");
  return new Set(own.map(({ instanceId }) => instanceId as InstanceId)).difference(new Set(tombstones as InstanceId[]));
}

const graphsDirOf = ({ dataDir }: AgentConfig) => join(dataDir, "graphs");
const adaptersDirOf = ({ dataDir }: AgentConfig) => join(dataDir, "adapters");

/** Metrics of this agent and its engines, and what `stoker inspect` shows. */
function openPages({ config, log, version }: Process, host: Host, agent: Agent) {
  const { metrics, hostId, driverName, inventory, state } = host;
  const { samples, engines, control, advertise, reconciler } = agent;
  addGpuMetrics(metrics.registry, config.gpuMetrics, samples.gpuFacts);
  addUsageMetrics(metrics.registry, () => samples.host.value, samples.used);
  const { metricsTokenFile } = config;
  const metricsToken = metricsTokenFile === undefined ? undefined : readBearerSecret(metricsTokenFile);
  if (!metricsToken && !isLoopbackHost(config.metricsHost))
    log.warn(
      { host: config.metricsHost },
      "metrics pages are open to other machines: set STOKER_AGENT_METRICS_TOKEN_FILE",
    );
  return startMetricsServer({
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
}

await main().catch(reportAndExit);
