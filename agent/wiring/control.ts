// Source of the desired state: a control plane over its session, or a file.
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { SecureContext } from "node:tls";
import type { Logger } from "pino";
import { isLoopbackHost } from "../../proto/address-rules.ts";
import type { AdapterReport } from "../../proto/gen/stoker/fleet/v1/AdapterReport.ts";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { KeptWeights } from "../../proto/gen/stoker/fleet/v1/KeptWeights.ts";
import type { HostId } from "../../proto/ids.ts";
import { dialOptions, type PeerOptions, PeerRefused, peerContext } from "../../proto/peer-tls.ts";
import { readIfPresent, replaceFileSync } from "../../proto/replace-file.ts";
import type { AgentConfig } from "../config.ts";
import type { Reconciler } from "../reconcile/loop.ts";
import { type BarredHosts, createBarredHosts } from "../session/barred-hosts.ts";
import { type CommandExecutor, createCommands } from "../session/commands.ts";
import { type ControlClock, createControlClock } from "../session/control-clock.ts";
import { Identity } from "../session/identity.ts";
import { Session } from "../session/session.ts";
import { completeDesired } from "../session/wire.ts";
import type { AgentState } from "../state/open-state.ts";
import type { NeighbourAddress } from "../weights/neighbours.ts";
import { bootId, reportAndExit } from "./process.ts";
import type { Samples } from "./samples.ts";

export interface Control extends Pick<Session, "run" | "reportSoon" | "neighbours" | "keys" | "nodeEpoch" | "state"> {
  readonly clock: ControlClock;
  /** Undefined without a control plane: there are no signed tickets. */
  readonly tls: DataPathTls | undefined;
  readonly certificateSecondsLeft: Identity["certificateSecondsLeft"];
}

interface ControlParts {
  readonly config: AgentConfig;
  readonly version: string;
  readonly state: AgentState;
  readonly inventory: () => Inventory;
  readonly advertise: () => string;
  /** Set before `run`. */
  readonly reconciler: () => Pick<Reconciler, "report" | "setDesired" | "hold">;
  readonly weights: () => readonly KeptWeights[];
  readonly adapters: (instanceId: string) => readonly AdapterReport[];
  /** By kind: what a control plane may have done once (session/commands.ts). */
  readonly executors: Readonly<Record<string, CommandExecutor>>;
  readonly answered: (kind: string, result: "ok" | "rejected_epoch" | "duplicate" | "failed") => void;
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
  const identity = new Identity({
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
  const session = new Session({
    addresses,
    identity: endingWhenNotJoined(identity, (error) =>
      reportAndExit(new JoinNeeded(error, { hostId: state.session.hostId(), dataDir: config.dataDir, addresses })),
    ),
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
  const tls = createDataPathTls(identity, barred, config.isPlain);
  return { ...session, run, clock, tls, certificateSecondsLeft: identity.certificateSecondsLeft };
}

/** Desired state before a control plane has replied: the file's, or the last accepted one. */
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

/** Without a certificate, no token and a refused token fail the same way at every attempt. */
function endingWhenNotJoined(identity: Identity, end: (error: Error) => void): Pick<Identity, "tls"> {
  return {
    tls: (address, signal) =>
      identity.tls(address, signal).catch((error: Error & { code?: unknown }) => {
        const isFinal = error.code === "not_joined" || error.code === "join_refused";
        if (isFinal && identity.certificateSecondsLeft() === undefined) end(error);
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

/** Undefined: the operator set none, or removed it after use. */
async function readToken(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  return (await readFile(file, "utf8")).trim();
}

interface HostToJoin {
  readonly hostId: string;
  readonly dataDir: string;
  readonly addresses: readonly string[];
}

/** The host cannot join. The message names the cause and the commands that join it. */
class JoinNeeded extends Error {
  constructor(cause: Error, { hostId, dataDir, addresses }: HostToJoin) {
    super(
      `${cause.message} (folder ${dataDir}, host ${hostId}). ` +
        "Create a join token on the control plane: `stoker node token create`, or " +
        `\`stoker node token create --node ${hostId}\` if \`stoker node list\` shows this host. ` +
        `Then join on this host: \`stoker node join --token-file - --control ${addresses.join(",")} --data ${quoted(dataDir)}\`, ` +
        "with the same --advertise as before, or write the token into " +
        `${quoted(`${dataDir}/join.token`)} and start the agent again.`,
      { cause },
    );
    this.name = "JoinNeeded";
  }
}

const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

// Ticket key of a host without a control plane: every reader of this file can sign tickets.
const keyBytes = 32;

/** 32 bytes, created once, stored as base64 in `<data>/local-ticket.key`. A truncated file is replaced. */
function localTicketKey(dataDir: string): Buffer {
  const path = join(dataDir, "local-ticket.key");
  const kept = Buffer.from(readIfPresent(path)?.trim() ?? "", "base64");
  if (kept.length === keyBytes) return kept;
  const key = randomBytes(keyBytes);
  replaceFileSync(path, `${key.toString("base64")}\n`);
  return key;
}

type DataPathTls = ReturnType<typeof createDataPathTls>;

export function createDataPathTls(
  identity: Pick<Identity, "current" | "onCertificate">,
  barred: Pick<BarredHosts, "has" | "onChange">,
  /** The operator of this host allows plain HTTP to other machines. */
  isPlainAllowed: boolean,
) {
  let context: SecureContext | undefined;
  identity.onCertificate(() => {
    context = undefined;
  });

  return {
    ingress: {
      certificate: identity.current,
      onCertificate: identity.onCertificate,
      isRevoked: barred.has,
      onRevoked: barred.onChange,
    },
    dial({ origin, hostId }: NeighbourAddress): PeerOptions {
      if (barred.has(hostId as HostId)) throw new PeerRefused(`is revoked: host ${hostId}`);
      if (!origin.startsWith("https:")) {
        if (isPlainAllowed || isLoopbackHost(URL.parse(origin)?.hostname ?? "")) return {};
        throw new PeerRefused("speaks no TLS, which this host requires (STOKER_INGRESS_TLS)");
      }
      const own = identity.current();
      if (!own) throw new PeerRefused("requires a certificate, and this host has none yet");
      if (hostId === "") throw new PeerRefused("is not named by the control plane, which is of an earlier version");
      context ??= peerContext(own);
      return dialOptions(context, hostId as HostId);
    },
  };
}
