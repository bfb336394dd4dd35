// The agent's end of Fleet.Session: connects, reconnects, and keeps the state that outlives a connection (ticket keys, the
// control plane's clock, the epoch). While the control plane is unavailable the agent continues to serve.
import type { Logger } from "pino";
import type { AgentMessage } from "../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { ControlMessage__Output } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { HostReport } from "../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { InstanceReport } from "../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { KeptWeights } from "../../proto/gen/stoker/fleet/v1/KeptWeights.ts";
import type { Welcome__Output } from "../../proto/gen/stoker/fleet/v1/Welcome.ts";
import { writeUsageBatch } from "../../proto/usage-record.ts";
import type { UsageSpool } from "../ingress/spool.ts";
import type { BarredHosts } from "./barred-hosts.ts";
import type { Commands } from "./commands.ts";
import { type ConnectionEnd, connect } from "./connection.ts";
import type { ControlClock } from "./control-clock.ts";
import type { Identity } from "./identity.ts";
import { createNeighbourQuestions } from "./neighbours.ts";
import { every } from "./pace.ts";
import { createRestoredDatabase } from "./restored-database.ts";
import type { SessionStore } from "./store.ts";
import { type Notices, takeTurns } from "./turns.ts";
import { createUsageSender } from "./usage-sender.ts";
import type { TlsParts } from "./wire.ts";

interface SessionOptions {
  /** host:port of every control plane; the agent is connected to one at a time. */
  readonly addresses: readonly string[];
  /** Identity of this host; joins at the first attempt. Rejects with a sentence. */
  readonly identity: Pick<Identity, "tls">;
  /** `runId`: new at every start of the agent. */
  readonly introduction: {
    readonly hostname: string;
    readonly agentVersion: string;
    readonly bootId: string;
    readonly runId: string;
  };
  readonly advertise: () => string;
  readonly store: SessionStore;
  readonly spool: Pick<UsageSpool, "pending" | "acknowledge" | "resend" | "openLeaseIds" | "depth" | "onPending">;
  readonly clock: ControlClock;
  readonly inventory: () => Inventory;
  /** Undefined before the first check of the instances: nothing is reported then. */
  readonly report: () => HostInstances | undefined;
  readonly figures: () => Partial<HostReport>;
  readonly onDesired: (desired: DesiredState__Output) => void;
  /** Called with true when nothing may be started, with false when it may. */
  readonly onFenced: (isFenced: boolean) => void;
  readonly barred: Pick<BarredHosts, "replace">;
  readonly commands: Commands;
  readonly monotonicMs: () => number;
  readonly random: () => number;
  readonly log: Logger;
}

export interface HostInstances {
  readonly generation: string;
  readonly instances: readonly InstanceReport[];
  readonly removed: readonly string[];
  readonly weights: readonly KeptWeights[];
}

export type Session = ReturnType<typeof createSession>;

type Send = (message: AgentMessage) => void;

/** Changes within this time are sent in one report. */
const gatherMs = 25;

export function createSession(options: SessionOptions) {
  const { store, spool, clock, log, monotonicMs } = options;
  const reconnects = new Map<ConnectionEnd["reason"], number>();
  let keys: readonly Buffer[] = [];
  let nodeEpoch = store.highestEpoch();
  let leaseEndsMs = 0;
  let isConnected = false;
  let fencedWhy = store.fencedWhy();
  let reportNow = () => {};
  let spreadMs: number | undefined;
  let newest: Serving | undefined;
  const questions = createNeighbourQuestions();
  const restored = createRestoredDatabase(store, spool, log);

  async function once(address: string, notices: Notices, signal: AbortSignal): Promise<ConnectionEnd> {
    let tls: TlsParts;
    try {
      tls = await options.identity.tls(address, signal);
    } catch (error) {
      return { reason: "refused", detail: (error as Error).message, wasWelcomed: false };
    }
    const ending = new AbortController();
    const until = AbortSignal.any([signal, ending.signal]);
    let serving: Serving | undefined;
    const hello = {
      ...options.introduction,
      hostId: store.hostId(),
      highestEpoch: store.highestEpoch().toString(),
      generation: store.desired()?.generation ?? "0",
      restoreMark: store.restoreMark(),
      advertise: options.advertise(),
      inventory: options.inventory(),
    };
    const onWelcome = (welcome: Welcome__Output, askedMs: number, send: Send) => {
      notices.welcomed();
      serving = serve(welcome, askedMs, send, until);
      newest = serving;
    };
    const onMessage = (message: ControlMessage__Output) => {
      if (message.renewed) notices.databaseUnavailable(message.renewed.databaseAway);
      serving?.take(message);
    };
    const end = await connect({ address, tls, hello, onWelcome, onMessage, monotonicMs }, signal);
    ending.abort();
    // Another control plane may have taken over in the meantime: keep its values.
    if (newest === serving) {
      isConnected = false;
      reportNow = () => {};
    }
    await serving?.done;
    return end;
  }

  interface Serving {
    take(message: ControlMessage__Output): void;
    readonly done: Promise<unknown>;
  }

  function serve(welcome: Welcome__Output, askedMs: number, send: Send, signal: AbortSignal): Serving {
    const epoch = BigInt(welcome.nodeEpoch);
    const ttlMs = welcome.leaseTtlMs || 20_000;
    const asked = new Map<string, number>([["", askedMs]]);
    const renewed = (sequence: string, controlTimeMs: string) => {
      const sentMs = asked.get(sequence);
      asked.delete(sequence);
      if (sentMs === undefined) return;
      leaseEndsMs = sentMs + ttlMs;
      clock.addSample(Number(controlTimeMs), sentMs, monotonicMs());
    };
    restored.receive(welcome);
    clock.tolerate(welcome.clockToleranceMs);
    renewed("", welcome.controlTimeMs);
    spreadMs = welcome.reconnectSpreadMs || undefined;
    options.barred.replace(welcome.barredHosts);
    keys = [welcome.ticketKey, ...keys].slice(0, 2);
    if (epoch < store.highestEpoch())
      log.error(
        { alert: "control_plane_behind", epoch: welcome.nodeEpoch, highest: store.highestEpoch().toString() },
        "this control plane is older than an earlier one; instances continue and nothing is changed",
      );
    nodeEpoch = epoch;
    isConnected = true;
    fence("");
    log.info({ epoch: welcome.nodeEpoch }, "connected to the control plane");
    store.sawEpoch(epoch).catch((error) => log.error({ err: error }, "could not persist the epoch"));

    let reported = JSON.stringify(options.inventory());
    const report = async () => {
      const state = options.report();
      if (!state) return;
      // A report without the leases would release them: send none until they are read.
      const openLeaseIds = await spool.openLeaseIds();
      if (signal.aborted) return;
      const resend = await restored.report();
      if (signal.aborted) return;
      const inventory = options.inventory();
      const isNews = JSON.stringify(inventory) !== reported;
      reported = JSON.stringify(inventory);
      const { generation, instances, removed, weights } = state;
      send({
        body: "report",
        report: {
          ...options.figures(),
          nodeEpoch: welcome.nodeEpoch,
          generation,
          inventory: isNews ? inventory : null,
          instances: [...instances],
          spoolRecords: spool.depth().records,
          openLeaseIds: [...openLeaseIds],
          removed: [...removed],
          weights: [...weights],
          resend,
        },
      });
    };
    const reports = every(welcome.reportEveryMs || 5_000, gatherMs, report, log, signal);
    reportNow = reports.now;
    reports.now();
    let sequence = 0;
    const renew = async () => {
      sequence += 1;
      asked.set(String(sequence), monotonicMs());
      send({ body: "renew", renew: { nodeEpoch: welcome.nodeEpoch, sequence } });
    };
    const renewals = every(welcome.renewEveryMs || 5_000, 0, renew, log, signal);
    const usage = createUsageSender(
      spool,
      (records) => send({ body: "usage", usage: { records: writeUsageBatch(records) } }),
      log,
    );
    wakeUsage = usage.wake;
    questions.over(send, signal);
    return {
      take(message) {
        if (message.renewed) {
          renewed(message.renewed.sequence, message.renewed.controlTimeMs);
          restored.receive(message.renewed);
          spreadMs = message.renewed.reconnectSpreadMs || spreadMs;
          options.barred.replace(message.renewed.barredHosts);
        } else if (message.usageAck) usage.acknowledged(message.usageAck.spoolIds);
        else if (message.neighbours) questions.answered(message.neighbours);
        else if (message.desired) void obey(message.desired, epoch);
        else if (message.command)
          void options.commands.take(
            message.command,
            { session: epoch, highest: store.highestEpoch() },
            (commandResult) => {
              if (!signal.aborted) send({ body: "commandResult", commandResult });
            },
          );
      },
      done: Promise.all([reports.done, renewals.done, usage.run(signal)]),
    };
  }

  async function obey(desired: DesiredState__Output, epoch: bigint): Promise<void> {
    const stamp = stampOf(desired);
    const held = store.desired();
    const verdict = judgeDesired(stamp, { nodeEpoch: epoch }, store.highestEpoch(), held && stampOf(held));
    const facts = { epoch: desired.nodeEpoch, generation: desired.generation, held: held?.generation };
    if (verdict.kind === "refuse") {
      log.error({ alert: verdict.why, ...facts }, "refused a desired state that is older than the current one");
      return;
    }
    if (verdict.kind === "same") return;
    try {
      await store.save(desired);
    } catch (error) {
      // Apply it nevertheless: the control plane sends it again after a restart of the agent.
      log.error({ err: error, ...facts }, "could not persist the desired state");
    }
    log.info({ ...facts, instances: desired.instances.length, tombstones: desired.tombstones.length }, "desired state");
    options.onDesired(desired);
  }

  /**
   * Another agent may serve as this host, or none may: refuse tickets and start nothing until a control plane accepts this
   * agent again (empty `why`).
   */
  function fence(why: string): void {
    const wasFenced = fencedWhy !== "";
    fencedWhy = why;
    store.sawFenced(why).catch((error) => log.error({ err: error }, "could not persist fenced state"));
    if (why !== "") {
      keys = [];
      if (!wasFenced)
        log.error(
          { alert: "fenced", why },
          "agent fenced: it serves and starts nothing until the control plane accepts it again",
        );
    } else if (wasFenced) log.info("control plane accepts this agent again");
    options.onFenced(why !== "");
  }

  let wakeUsage = () => {};
  spool.onPending(() => wakeUsage());

  return {
    /** Current key, then the previous one: tickets issued just before a reconnect still verify. */
    keys: () => keys,
    nodeEpoch: () => nodeEpoch,
    reportSoon: () => reportNow(),
    /** Returns other hosts that may have weights of a repository; none without a session. */
    neighbours: questions.ask,
    state: () => ({
      isConnected,
      /** Revoked, or another agent with this identity connected later: nothing is served or started. Survives a restart. */
      isFenced: fencedWhy !== "",
      fencedWhy,
      /** True when tickets can be verified, so that requests are admitted. */
      hasKeys: keys.length > 0,
      nodeEpoch,
      leaseRemainingSeconds: Math.max(0, (leaseEndsMs - monotonicMs()) / 1000),
      reconnects,
    }),
    run: (signal: AbortSignal) =>
      takeTurns(
        {
          addresses: options.addresses,
          talk: once,
          onEnd: (end) => {
            if (end.reason === "fenced") fence(end.detail || "the control plane refused this agent");
            reconnects.set(end.reason, (reconnects.get(end.reason) ?? 0) + 1);
          },
          spreadMs: () => spreadMs,
          random: options.random,
          log,
        },
        signal,
      ),
  };
}

const stampOf = (desired: DesiredState__Output) => ({
  nodeEpoch: BigInt(desired.nodeEpoch),
  generation: BigInt(desired.generation),
});

interface Stamp {
  readonly nodeEpoch: bigint;
  readonly generation: bigint;
}

type Verdict =
  | { readonly kind: "obey" }
  | { readonly kind: "same" }
  | { readonly kind: "refuse"; readonly why: "rejected_epoch" | "older_generation" };

/** `held`: the last accepted one, if any. */
export function judgeDesired(
  given: Stamp,
  session: { readonly nodeEpoch: bigint },
  highestEpoch: bigint,
  held: Stamp | undefined,
): Verdict {
  if (given.nodeEpoch < highestEpoch || given.nodeEpoch !== session.nodeEpoch)
    return { kind: "refuse", why: "rejected_epoch" };
  if (!held) return { kind: "obey" };
  if (given.generation < held.generation) return { kind: "refuse", why: "older_generation" };
  return given.generation === held.generation && given.nodeEpoch === held.nodeEpoch
    ? { kind: "same" }
    : { kind: "obey" };
}
