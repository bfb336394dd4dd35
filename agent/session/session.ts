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

type Send = (message: AgentMessage) => void;

/** Changes within this time are sent in one report. */
const gatherMs = 25;

interface Serving {
  take(message: ControlMessage__Output): void;
  readonly done: Promise<unknown>;
}

export class Session {
  readonly #options: SessionOptions;
  readonly #monotonicMs: () => number;
  readonly #log: Logger;
  readonly #spool: SessionOptions["spool"];
  readonly #store: SessionStore;
  readonly #reconnects = new Map<ConnectionEnd["reason"], number>();
  #keys: readonly Buffer[] = [];
  #nodeEpoch: bigint;
  #leaseEndsMs = 0;
  #isConnected = false;
  #fencedWhy: string;
  #spreadMs: number | undefined;
  #newest: Serving | undefined;
  readonly #questions = createNeighbourQuestions();
  readonly #restored: ReturnType<typeof createRestoredDatabase>;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#monotonicMs = options.monotonicMs;
    this.#log = options.log;
    this.#spool = options.spool;
    this.#store = options.store;
    this.#nodeEpoch = options.store.highestEpoch();
    this.#fencedWhy = options.store.fencedWhy();
    this.#restored = createRestoredDatabase(options.store, options.spool, options.log);
    options.spool.onPending(() => this.#wakeUsage());
  }

  #reportNow = () => {};

  #wakeUsage = () => {};

  readonly #once = async (address: string, notices: Notices, signal: AbortSignal): Promise<ConnectionEnd> => {
    let tls: TlsParts;
    try {
      tls = await this.#options.identity.tls(address, signal);
    } catch (error) {
      return { reason: "refused", detail: (error as Error).message, wasWelcomed: false };
    }
    const ending = new AbortController();
    const until = AbortSignal.any([signal, ending.signal]);
    let serving: Serving | undefined;
    const hello = {
      ...this.#options.introduction,
      hostId: this.#store.hostId(),
      highestEpoch: this.#store.highestEpoch().toString(),
      generation: this.#store.desired()?.generation ?? "0",
      restoreMark: this.#store.restoreMark(),
      advertise: this.#options.advertise(),
      inventory: this.#options.inventory(),
    };
    const onWelcome = (welcome: Welcome__Output, askedMs: number, send: Send) => {
      notices.welcomed();
      serving = this.#serve(welcome, askedMs, send, until);
      this.#newest = serving;
    };
    const onMessage = (message: ControlMessage__Output) => {
      if (message.renewed) notices.databaseUnavailable(message.renewed.databaseAway);
      serving?.take(message);
    };
    const end = await connect({ address, tls, hello, onWelcome, onMessage, monotonicMs: this.#monotonicMs }, signal);
    ending.abort();
    // Another control plane may have taken over in the meantime: keep its values.
    if (this.#newest === serving) {
      this.#isConnected = false;
      this.#reportNow = () => {};
    }
    await serving?.done;
    return end;
  };

  #serve(welcome: Welcome__Output, askedMs: number, send: Send, signal: AbortSignal): Serving {
    const epoch = BigInt(welcome.nodeEpoch);
    const ttlMs = welcome.leaseTtlMs || 20_000;
    const asked = new Map<string, number>([["", askedMs]]);
    const renewed = (sequence: string, controlTimeMs: string) => {
      const sentMs = asked.get(sequence);
      asked.delete(sequence);
      if (sentMs === undefined) return;
      this.#leaseEndsMs = sentMs + ttlMs;
      this.#options.clock.addSample(Number(controlTimeMs), sentMs, this.#monotonicMs());
    };
    this.#restored.receive(welcome);
    this.#options.clock.tolerate(welcome.clockToleranceMs);
    renewed("", welcome.controlTimeMs);
    this.#spreadMs = welcome.reconnectSpreadMs || undefined;
    this.#options.barred.replace(welcome.barredHosts);
    this.#keys = [welcome.ticketKey, ...this.#keys].slice(0, 2);
    if (epoch < this.#store.highestEpoch())
      this.#log.error(
        { alert: "control_plane_behind", epoch: welcome.nodeEpoch, highest: this.#store.highestEpoch().toString() },
        "this control plane is older than an earlier one; instances continue and nothing is changed",
      );
    this.#nodeEpoch = epoch;
    this.#isConnected = true;
    this.#fence("");
    this.#log.info({ epoch: welcome.nodeEpoch }, "connected to the control plane");
    this.#store.sawEpoch(epoch).catch((error) => this.#log.error({ err: error }, "could not persist the epoch"));

    let reported = JSON.stringify(this.#options.inventory());
    const report = async () => {
      const state = this.#options.report();
      if (!state) return;
      // A report without the leases would release them: send none until they are read.
      const openLeaseIds = await this.#spool.openLeaseIds();
      if (signal.aborted) return;
      const resend = await this.#restored.report();
      if (signal.aborted) return;
      const inventory = this.#options.inventory();
      const isNews = JSON.stringify(inventory) !== reported;
      reported = JSON.stringify(inventory);
      const { generation, instances, removed, weights } = state;
      send({
        body: "report",
        report: {
          ...this.#options.figures(),
          nodeEpoch: welcome.nodeEpoch,
          generation,
          inventory: isNews ? inventory : null,
          instances: [...instances],
          spoolRecords: this.#spool.depth().records,
          openLeaseIds: [...openLeaseIds],
          removed: [...removed],
          weights: [...weights],
          resend,
        },
      });
    };
    const reports = every(welcome.reportEveryMs || 5_000, gatherMs, report, this.#log, signal);
    this.#reportNow = reports.now;
    reports.now();
    let sequence = 0;
    const renew = async () => {
      sequence += 1;
      asked.set(String(sequence), this.#monotonicMs());
      send({ body: "renew", renew: { nodeEpoch: welcome.nodeEpoch, sequence } });
    };
    const renewals = every(welcome.renewEveryMs || 5_000, 0, renew, this.#log, signal);
    const usage = createUsageSender(
      this.#spool,
      (records) => send({ body: "usage", usage: { records: writeUsageBatch(records) } }),
      this.#log,
    );
    this.#wakeUsage = usage.wake;
    this.#questions.over(send, signal);
    return {
      take: (message) => {
        if (message.renewed) {
          renewed(message.renewed.sequence, message.renewed.controlTimeMs);
          this.#restored.receive(message.renewed);
          this.#spreadMs = message.renewed.reconnectSpreadMs || this.#spreadMs;
          this.#options.barred.replace(message.renewed.barredHosts);
        } else if (message.usageAck) usage.acknowledged(message.usageAck.spoolIds);
        else if (message.neighbours) this.#questions.answered(message.neighbours);
        else if (message.desired) void this.#obey(message.desired, epoch);
        else if (message.command)
          void this.#options.commands.take(
            message.command,
            { session: epoch, highest: this.#store.highestEpoch() },
            (commandResult) => {
              if (!signal.aborted) send({ body: "commandResult", commandResult });
            },
          );
      },
      done: Promise.all([reports.done, renewals.done, usage.run(signal)]),
    };
  }

  async #obey(desired: DesiredState__Output, epoch: bigint): Promise<void> {
    const stamp = stampOf(desired);
    const held = this.#store.desired();
    const verdict = judgeDesired(stamp, { nodeEpoch: epoch }, this.#store.highestEpoch(), held && stampOf(held));
    const facts = { epoch: desired.nodeEpoch, generation: desired.generation, held: held?.generation };
    if (verdict.kind === "refuse") {
      this.#log.error({ alert: verdict.why, ...facts }, "refused a desired state that is older than the current one");
      return;
    }
    if (verdict.kind === "same") return;
    try {
      await this.#store.save(desired);
    } catch (error) {
      // Apply it nevertheless: the control plane sends it again after a restart of the agent.
      this.#log.error({ err: error, ...facts }, "could not persist the desired state");
    }
    this.#log.info(
      { ...facts, instances: desired.instances.length, tombstones: desired.tombstones.length },
      "desired state",
    );
    this.#options.onDesired(desired);
  }

  /**
   * Another agent may serve as this host, or none may: refuse tickets and start nothing until a control plane accepts this
   * agent again (empty `why`).
   */
  #fence(why: string): void {
    const wasFenced = this.#fencedWhy !== "";
    this.#fencedWhy = why;
    this.#store.sawFenced(why).catch((error) => this.#log.error({ err: error }, "could not persist fenced state"));
    if (why !== "") {
      this.#keys = [];
      if (!wasFenced)
        this.#log.error(
          { alert: "fenced", why },
          "agent fenced: it serves and starts nothing until the control plane accepts it again",
        );
    } else if (wasFenced) this.#log.info("control plane accepts this agent again");
    this.#options.onFenced(why !== "");
  }

  /** Current key, then the previous one: tickets issued just before a reconnect still verify. */
  readonly keys = () => this.#keys;

  readonly nodeEpoch = () => this.#nodeEpoch;

  readonly reportSoon = () => this.#reportNow();

  /** Returns other hosts that may have weights of a repository; none without a session. */
  readonly neighbours = this.#questions.ask;

  readonly state = () => ({
    isConnected: this.#isConnected,
    /** Revoked, or another agent with this identity connected later: nothing is served or started. Survives a restart. */
    isFenced: this.#fencedWhy !== "",
    fencedWhy: this.#fencedWhy,
    /** True when tickets can be verified, so that requests are admitted. */
    hasKeys: this.#keys.length > 0,
    nodeEpoch: this.#nodeEpoch,
    leaseRemainingSeconds: Math.max(0, (this.#leaseEndsMs - this.#monotonicMs()) / 1000),
    reconnects: this.#reconnects,
  });

  readonly run = (signal: AbortSignal) =>
    takeTurns(
      {
        addresses: this.#options.addresses,
        talk: this.#once,
        onEnd: (end) => {
          if (end.reason === "fenced") this.#fence(end.detail || "the control plane refused this agent");
          this.#reconnects.set(end.reason, (this.#reconnects.get(end.reason) ?? 0) + 1);
        },
        spreadMs: () => this.#spreadMs,
        random: this.#options.random,
        log: this.#log,
      },
      signal,
    );
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
