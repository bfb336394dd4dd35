// Hosts, deployments and agent sessions with their stores: they need only the database, the change feed and a few ports of other
// features.

import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { ApiFormat } from "../../proto/api-formats.ts";
import type { AccountId, HostId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import type { Tracing } from "../../proto/tracing.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { createHostChooser } from "../deployments/choose-hosts.ts";
import { createController } from "../deployments/controller.ts";
import { createHoldKeeper, type TimeHolds } from "../deployments/dedicated-money.ts";
import type { Transition } from "../deployments/deployment-steps.ts";
import { desiredSet } from "../deployments/desired.ts";
import { createDrainPreview } from "../deployments/drain-preview.ts";
import { createObserver } from "../deployments/observe.ts";
import type { OwnCertificate } from "../fleet/authority.ts";
import { createDial } from "../fleet/dial.ts";
import { createHostClocks, type HostClockLimits } from "../fleet/host-clocks.ts";
import { createHostOperations } from "../fleet/host-operations.ts";
import { type AgedLive, createLiveFigures, newerLive, requestsAt } from "../fleet/live.ts";
import { createMembership } from "../fleet/membership.ts";
import { createFindNeighbours } from "../fleet/neighbours.ts";
import { createProver } from "../fleet/prover.ts";
import { createReconcile } from "../fleet/reconcile.ts";
import { createRoutingTable } from "../fleet/routing-table.ts";
import { snapshot } from "../fleet/snapshot.ts";
import type { TicketKeySeal } from "../fleet/store.ts";
import type { JobsAddress } from "../jobs/backend.ts";
import { createDeploymentTimers } from "../jobs/deployment-timers.ts";
import type { MayBePlain } from "../plain-hosts.ts";
import type { SessionTimes } from "../rpc/fleet-session.ts";
import { createSessions } from "../rpc/sessions.ts";
import type { ChangeFeed } from "../store/core/change-feed.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createDeploymentStore } from "../store/deployments/deployments-store.ts";
import { createReserveStore } from "../store/deployments/gpu-reserve-store.ts";
import { createMeasuredMemoryStore } from "../store/deployments/measured-memory-store.ts";
import { createCommandStore } from "../store/fleet/command-store.ts";
import { createFleetStore } from "../store/fleet/fleet-store.ts";
import { createHostOperationStore } from "../store/fleet/host-operation-store.ts";
import { createNodeWeightsStore } from "../store/fleet/node-weights-store.ts";
import { createReconcileStore } from "../store/fleet/reconcile-store.ts";
import { refreshOn } from "./refresh-loop.ts";

export interface FleetParts {
  readonly db: OpenDatabase["db"];
  readonly feed: Pick<ChangeFeed, "on">;
  readonly seal: TicketKeySeal;
  readonly openToken: (account: AccountId, sealed: Buffer) => Promise<string>;
  readonly settle: (records: readonly SpooledRecord[], nodeEpoch: string, host: HostId) => Promise<readonly string[]>;
  /** Pays for running instances in advance; undefined: GPU time is free. */
  readonly holds?: TimeHolds;
  /** Id of this replica in claims. */
  readonly owner: string;
  /** Certificate of this replica for data paths of hosts, and the hosts that may use plain HTTP. */
  readonly dataPaths: { readonly issue: (replica: string) => OwnCertificate; readonly mayBePlain: MayBePlain };
  readonly limits: HostClockLimits;
  /** Requests in others than these formats are translated to chats; undefined: none is. */
  readonly passedFormats?: readonly ApiFormat[] | undefined;
  readonly times: SessionTimes;
  /** Storage of deployment timers; without it controllers find due work by polling. */
  readonly jobs?: { readonly address: JobsAddress; readonly registry: Registry };
  readonly log: Logger;
  readonly onTransition?: (transition: Transition) => void;
  /** Undefined: traces are off. */
  readonly tracing?: Tracing | undefined;
  readonly beatEveryMs?: number;
  readonly resyncMs?: number;
}

const holdEveryMs = 60_000;
const measureEveryMs = 60_000;

export type Fleet = ReturnType<typeof createFleet>;

export function createFleet(parts: FleetParts) {
  const { db, feed, log } = parts;
  const monotonicMs = () => performance.now();
  const fleetStore = createFleetStore(db, parts.seal);
  const deploymentStore = createDeploymentStore(db);
  const hostOperationStore = createHostOperationStore(db);
  const nodeWeights = createNodeWeightsStore(db);
  const measuredMemory = createMeasuredMemoryStore(db);
  const clocks = createHostClocks({ limits: parts.limits, monotonicMs });
  const routing = createRoutingTable({ store: fleetStore, clocks, passedFormats: parts.passedFormats });
  const snapshotOf = (only?: readonly HostId[]) => snapshot({ store: fleetStore, clocks }, only);
  const figures = createLiveFigures(monotonicMs);
  const membership = createMembership({
    figures,
    store: fleetStore,
    clocks,
    routing,
    monotonicMs,
    leaseMs: parts.limits.leaseMs,
    log,
    ...(parts.beatEveryMs === undefined ? {} : { everyMs: parts.beatEveryMs }),
  });
  const hostState = (host: HostId) => clocks.state(host);
  let revoked: ReadonlySet<HostId> = new Set();
  let barred: readonly HostId[] = [];
  const dial = createDial({
    issue: () => parts.dataPaths.issue(parts.owner),
    isRevoked: (host) => revoked.has(host),
    mayBePlain: parts.dataPaths.mayBePlain,
    nowMs: steadyTime.nowMs,
  });
  /** Returns the newer of this replica's figures and those that another one wrote, of every host or of these. */
  const live = async (only?: readonly HostId[]): Promise<ReadonlyMap<HostId, AgedLive>> => {
    const written = await fleetStore.live(only);
    return new Map(
      [...written].flatMap(([host, row]) => {
        const newest = newerLive(figures.of(host), row);
        return newest ? [[host, newest] as const] : [];
      }),
    );
  };
  const reserves = createReserveStore(db);
  const hosts = createHostChooser({
    snapshot: snapshotOf,
    hostState,
    reserves,
    monotonicMs,
    resyncMs: parts.resyncMs ?? 5_000,
  });
  const timers = parts.jobs && createDeploymentTimers({ ...parts.jobs, log });
  const controller = createController({
    store: deploymentStore,
    hosts,
    hostState,
    leaving: () => hostOperationStore.draining(),
    faultyGpus: fleetStore.cordonedGpus,
    loads: async (on) => requestsAt((await live(on)).values()),
    owner: parts.owner,
    log,
    untilLostMs: clocks.untilLostMs,
    ...(timers ? { timers } : {}),
    ...(parts.onTransition ? { onTransition: parts.onTransition } : {}),
    tracing: parts.tracing,
    ...(parts.resyncMs === undefined ? {} : { resyncMs: parts.resyncMs }),
  });
  const reconcileStore = createReconcileStore(db);
  const reconcile = createReconcile({ store: reconcileStore, log });
  const sessions = createSessions({
    membership,
    reconcile,
    prover: createProver({ store: fleetStore, dial, clocks, routing, log }),
    observer: createObserver({ store: deploymentStore, log }),
    desired: (host) => desiredSet({ store: deploymentStore, openToken: parts.openToken, log }, host),
    settle: parts.settle,
    isRevoked: async (host) => (await fleetStore.revoked()).has(host),
    runOf: fleetStore.runOf,
    monotonicMs,
    nodeWeights,
    keptWeights: fleetStore.setKeptWeights,
    neighbours: createFindNeighbours({ store: fleetStore, clocks, dial }),
    barred: () => barred,
    commands: createCommandStore(db),
    times: parts.times,
    log,
  });
  const routeLoop = refreshOn(feed, ["deployment", "host"], {
    what: "routing table",
    refresh: routing.refresh,
    everyMs: parts.resyncMs ?? 5_000,
    log,
  });
  const keeper =
    parts.holds &&
    createHoldKeeper({ store: deploymentStore, holds: parts.holds, hostState: (host) => clocks.state(host), log });
  const holdLoop =
    keeper &&
    refreshOn(feed, ["deployment"], { what: "holds of GPU time", refresh: keeper.pass, everyMs: holdEveryMs, log });
  const readRevoked = async () => {
    revoked = await fleetStore.revoked();
    barred = await fleetStore.barred();
    clocks.setRevoked(revoked);
  };
  // Before the controller runs: instances of a revoked host are placed again at once.
  const revokedLoop = refreshOn(feed, ["host"], {
    what: "revoked hosts",
    refresh: async () => {
      await readRevoked();
      controller.wake();
    },
    everyMs: parts.resyncMs ?? 5_000,
    log,
  });
  feed.on("host", (host) => {
    sessions.wake(host as HostId);
    hosts.changed(host as HostId);
  });
  feed.on("deployment", () => controller.wake());

  const measureLoop = refreshOn(feed, [], {
    what: "measured memory",
    refresh: async () => void (await measuredMemory.measure()),
    everyMs: measureEveryMs,
    log,
  });

  return {
    fleetStore,
    deploymentStore,
    measuredMemory,
    clocks,
    routing,
    dial,
    sessions,
    controller,
    /** True after a restore of the database until every host has sent its stored usage again. */
    needsReconcile: () => reconcile.needsReconcile,
    restores: { list: reconcileStore.list },
    /** Returns the state of all hosts, or of the given ones. */
    snapshot: snapshotOf,
    hostOperations: createHostOperations({
      store: hostOperationStore,
      snapshot: () => snapshotOf(),
      live,
      inFlight: routing.inFlight,
      formats: routing.formats,
      uncordonGpus: fleetStore.uncordon,
    }),
    drainPreview: createDrainPreview({
      placed: hostOperationStore.placed,
      active: deploymentStore.active,
      snapshot: () => snapshotOf(),
      reserves,
      nowMs: steadyTime.nowMs,
    }),
    /** Live figures of every host. */
    live: () => live(),
    /** Bounded. Controllers continue without timers. */
    stopTimers: async () => timers?.stop(),
    /** Reads revoked hosts and routes. Must run before the first session, or revoked hosts would be admitted. */
    async load() {
      await readRevoked();
      await routing.refresh();
      await reconcile.start();
    },
    /** Follows hosts and routes. Resolves when its loops have ended. Requires load. */
    run: async (signal: AbortSignal): Promise<void> => {
      await Promise.all([
        membership.run(signal),
        reconcile.run(signal),
        routeLoop.run(signal),
        revokedLoop.run(signal),
      ]);
    },
    /** Places and ends instances. Resolves when its loops have ended. Requires load. */
    control: {
      run: async (signal: AbortSignal): Promise<void> => {
        timers?.start(controller.check);
        await Promise.all([controller.run(signal), holdLoop?.run(signal), measureLoop.run(signal)]);
        await timers?.stop();
      },
    },
  };
}
