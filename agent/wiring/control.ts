// Who tells this host what to run: a control plane over its session, or a file.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import type { AdapterReport } from "../../proto/gen/stoker/fleet/v1/AdapterReport.ts";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { KeptWeights } from "../../proto/gen/stoker/fleet/v1/KeptWeights.ts";
import type { AgentConfig } from "../config.ts";
import type { Reconciler } from "../reconcile/loop.ts";
import { createBarredHosts } from "../session/barred-hosts.ts";
import { type CommandExecutor, createCommands } from "../session/commands.ts";
import { type ControlClock, createControlClock } from "../session/control-clock.ts";
import { createIdentity, type Identity } from "../session/identity.ts";
import { createSession, type Session } from "../session/session.ts";
import { completeDesired } from "../session/wire.ts";
import type { AgentState } from "../state/open-state.ts";
import { bootId } from "./boot-id.ts";
import { createDataPathTls, type DataPathTls } from "./data-path-tls.ts";
import { tellAndExit } from "./defects.ts";
import { localTicketKey } from "./local-key.ts";
import type { Samples } from "./samples.ts";

export interface Control extends Pick<Session, "run" | "reportSoon" | "neighbours" | "keys" | "nodeEpoch" | "state"> {
  readonly clock: ControlClock;
  /** Undefined without a control plane: nobody signs anything. */
  readonly tls: DataPathTls | undefined;
  /** Of this host's certificate; undefined without one. */
  readonly certificateSecondsLeft: Identity["certificateSecondsLeft"];
}

export interface ControlParts {
  readonly config: AgentConfig;
  readonly version: string;
  readonly state: AgentState;
  readonly inventory: () => Inventory;
  readonly advertise: () => string;
  /** Set before `run`. */
  readonly reconciler: () => Pick<Reconciler, "report" | "setDesired" | "hold">;
  /** What lies in the weights cache. */
  readonly weights: () => readonly KeptWeights[];
  /** What an instance holds beside its model. */
  readonly adapters: (instanceId: string) => readonly AdapterReport[];
  /** By kind: what a control plane may have done once (session/commands.ts). */
  readonly executors: Readonly<Record<string, CommandExecutor>>;
  readonly answered: (kind: string, result: "ok" | "rejected_epoch" | "duplicate" | "failed") => void;
  /** What is sampled of the host and its instances. */
  readonly samples: () => Pick<Samples, "figures" | "withUsage">;
  readonly isStopping: () => boolean;
  readonly log: Logger;
}

export function createControl(parts: ControlParts): Control {
  const { config, state, log } = parts;
  const monotonicMs = () => performance.now();
  const clock = createControlClock(monotonicMs, Date.now);
  if (!config.control) return localControl(config, clock);
  const { addresses, tokenFile } = config.control;
  const own = createIdentity({
    folder: join(config.dataDir, "identity"),
    hostId: state.session.hostId(),
    hostname: config.nodeName,
    addresses,
    readToken: () => readToken(tokenFile),
    readOwnToken: () => readToken(join(config.dataDir, "join.token")).catch(() => undefined),
    nowMs: clock.nowMs,
    random: Math.random,
    log,
  });
  const barred = createBarredHosts();
  const identity = config.endsWhenRefused ? endingWhenRefused(own) : own;
  const session = createSession({
    addresses,
    identity,
    introduction: {
      hostname: config.nodeName,
      agentVersion: parts.version,
      bootId: bootId(),
      runId: randomUUID(),
    },
    advertise: parts.advertise,
    store: state.session,
    spool: state.spool,
    clock,
    inventory: parts.inventory,
    report: () => reportOf(parts),
    figures: () => {
      const { bytes, oldestAgeSeconds } = state.spool.depth();
      return {
        ...parts.samples().figures(),
        spoolBytes: bytes,
        spoolOldestAgeSeconds: oldestAgeSeconds,
        clockSkewSeconds: clock.skewSeconds,
      };
    },
    onDesired: (desired) => parts.reconciler().setDesired(desired),
    onFenced: (isFenced) => parts.reconciler().hold(isFenced),
    barred,
    commands: createCommands({
      log: state.commands,
      executors: parts.executors,
      controlTimeMs: clock.nowMs,
      desired: () => state.session.desired(),
      answered: parts.answered,
      logger: log,
    }),
    monotonicMs,
    random: Math.random,
    log,
  });
  const run = async (signal: AbortSignal) => {
    await Promise.all([session.run(signal), identity.run(signal)]);
  };
  const tls = createDataPathTls(identity, barred);
  return { ...session, run, clock, tls, certificateSecondsLeft: identity.certificateSecondsLeft };
}

/** What to reconcile before anybody was heard: the file's set, or the last one that was obeyed. */
export function firstDesired(config: AgentConfig, state: AgentState, log: Logger) {
  if (config.localDesired) return completeDesired(JSON.parse(readFileSync(config.localDesired, "utf8")));
  const kept = state.session.desired();
  if (!kept) return undefined;
  try {
    return completeDesired(kept);
  } catch (error) {
    log.error({ err: error }, "the kept desired state is unreadable: waiting for the control plane's");
    return undefined;
  }
}

function localControl(config: AgentConfig, clock: ControlClock): Control {
  const key = localTicketKey(config.dataDir);
  const none = {
    isConnected: false,
    isFenced: false,
    fencedWhy: "",
    hasKeys: true,
    nodeEpoch: 0n,
    leaseRemainingSeconds: 0,
    reconnects: new Map(),
  };
  return {
    clock,
    tls: undefined,
    certificateSecondsLeft: () => undefined,
    run: async () => {},
    reportSoon: () => {},
    neighbours: async () => [],
    keys: () => [key],
    nodeEpoch: () => 0n,
    state: () => none,
  };
}

/** Somebody waits for it at a terminal: a token that is refused will not do later either. */
function endingWhenRefused(identity: Identity): Identity {
  return {
    ...identity,
    tls: (address, signal) =>
      identity.tls(address, signal).catch((error: Error & { code?: unknown }) => {
        if (error.code === "join_refused" && identity.certificateSecondsLeft() === undefined) tellAndExit(error);
        throw error;
      }),
  };
}

/** While the agent drains nothing new is to be routed here, whatever the instances could still do. */
function reportOf(parts: ControlParts) {
  const report = parts.reconciler().report();
  if (!report) return undefined;
  const instances = report.instances.map((one) => {
    const isLeaving = parts.isStopping() && one.phase === "ready";
    const adapters = [...parts.adapters(one.instanceId)];
    return { ...parts.samples().withUsage(isLeaving ? { ...one, phase: "draining" } : one), adapters };
  });
  return { ...report, instances, weights: parts.weights() };
}

/** Undefined: the operator gave none, or took it away once it was used. */
async function readToken(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  return (await readFile(file, "utf8")).trim();
}
