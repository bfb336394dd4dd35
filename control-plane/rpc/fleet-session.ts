// One agent's session: receives Hello, renewals, reports and usage; sends the desired set, lease times and acknowledgements.
// Acknowledges only durable data; ends a session with an older epoch.
import type { Logger } from "pino";
import type { ControlMessage } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { WeightsWanted__Output } from "../../proto/gen/stoker/fleet/v1/WeightsWanted.ts";
import type { HostId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { clockToleranceMs } from "../../proto/ticket.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import type { DesiredSet } from "../deployments/desired.ts";
import type { Observer } from "../deployments/observe.ts";
import { NodeBanned, NodeRefused, SessionPaused } from "../fleet/errors.ts";
import type { Inventory } from "../fleet/host.ts";
import type { Hello, Membership, Welcome } from "../fleet/membership.ts";
import type { FindNeighbours } from "../fleet/neighbours.ts";
import type { Prover } from "../fleet/prover.ts";
import type { Reconcile, ReconcileMessage } from "../fleet/reconcile.ts";
import type { CommandStore, FleetStore, HostSession, NodeWeightsStore } from "../fleet/store.ts";
import { type CommandSender, createCommandSender } from "./command-sender.ts";
import type { HostPauses } from "./host-pauses.ts";
import { HostReports } from "./host-reports.ts";
import { type FleetStream, type Incoming, incoming } from "./incoming.ts";
import { asRpcError } from "./rpc-error.ts";
import { createUsageBatches, type UsageBatches } from "./usage-batches.ts";
import { readHello, withoutNul, writeDesired } from "./wire.ts";

export interface SessionTimes {
  readonly leaseTtlMs: number;
  readonly renewEveryMs: number;
  readonly reportEveryMs: number;
}

export interface SessionDeps {
  readonly membership: Membership;
  readonly prover: Prover;
  readonly observer: Observer;
  readonly desired: (host: { readonly id: HostId; readonly inventory: Inventory }) => Promise<DesiredSet | undefined>;
  readonly settle: (records: readonly SpooledRecord[], nodeEpoch: string, host: HostId) => Promise<readonly string[]>;
  readonly neighbours: FindNeighbours;
  readonly commands: CommandStore;
  readonly reconcile: Pick<Reconcile, "sawAgent" | "sawResend" | "message">;
  readonly isRevoked: (host: HostId) => Promise<boolean>;
  readonly runOf: FleetStore["runOf"];
  /** Revoked hosts that other hosts must refuse, as last read. */
  readonly barred: () => readonly HostId[];
  readonly monotonicMs: () => number;
  readonly nodeWeights: Pick<NodeWeightsStore, "observe">;
  readonly keptWeights: FleetStore["setKeptWeights"];
  readonly times: SessionTimes;
  readonly log: Logger;
}

export interface FleetSession {
  readonly host: HostId;
  readonly nodeEpoch: bigint;
  /** Called when a newer session of the host starts, with its agent's run; ends this one. */
  replaced(by: string | undefined): void;
  readonly runId: string;
  /** The host's desired set may have changed. */
  wake(): void;
  end(why: string): void;
  readonly ended: Promise<void>;
}

const helloLimitMs = 10_000;
/** Maximum concurrent questions of one session; an agent without a reply fetches from the hub. */
const maxQuestions = 16;
/** In renewal intervals: one renewal may be late. */
const maxSilence = 1.5;

/**
 * Undefined when no valid Hello arrived in time. Registers the certificate's host, and serves the stream until either side
 * ends it.
 */
export async function openSession(
  deps: SessionDeps,
  stream: FleetStream,
  host: HostId,
  pauses: HostPauses,
): Promise<FleetSession | undefined> {
  if (pauses.isPaused(host)) {
    stream.on("error", () => {});
    stream.emit("error", asRpcError(new SessionPaused("its last session ended for that reason")));
    return undefined;
  }
  const messages = incoming(stream);
  const first = await messages.next(helloLimitMs);
  const introduction =
    first?.body === "hello" && first.hello ? readHello(withoutNul(first.hello), host) : { why: "no Hello received" };
  if ("why" in introduction) {
    deps.log.warn({ peer: stream.getPeer(), host, why: introduction.why }, "agent session refused");
    stream.emit("error", asRpcError(new NodeRefused(introduction.why)));
    return undefined;
  }
  const { hello } = introduction;
  let welcome: Welcome;
  let restored: ReconcileMessage;
  try {
    welcome = await deps.membership.register(hello);
    const { restoreMark: mark, highestEpoch } = hello;
    restored = await deps.reconcile.sawAgent({ host, mark, isBehind: welcome.isBehind, highestEpoch });
  } catch (error) {
    deps.log.warn({ err: error, host }, "could not register an agent; it will retry");
    stream.emit("error", asRpcError(error));
    return undefined;
  }
  return new AgentSession(deps, { stream, messages, hello, welcome, restored, pauses });
}

/** An agent that was registered, and its connection. */
interface Registered {
  readonly stream: FleetStream;
  readonly messages: Incoming;
  readonly hello: Hello;
  readonly welcome: Welcome;
  readonly restored: ReconcileMessage;
  readonly pauses: HostPauses;
}

class AgentSession implements FleetSession {
  readonly host: HostId;
  readonly nodeEpoch: bigint;
  readonly runId: string;
  readonly ended: Promise<void>;
  readonly #deps: SessionDeps;
  readonly #agent: Registered;
  readonly #log: Logger;
  readonly #session: HostSession;
  readonly #reports: HostReports;
  readonly #commands: CommandSender;
  readonly #usage: UsageBatches;
  readonly #ending = new AbortController();
  #lastMessageMs: number;
  #sentGeneration = -1n;
  #isSending = false;
  #isSendWanted = false;
  #questionCount = 0;

  constructor(deps: SessionDeps, agent: Registered) {
    const { hello, welcome } = agent;
    const { hostId, nodeEpoch } = welcome;
    this.host = hostId;
    this.nodeEpoch = nodeEpoch;
    this.runId = hello.runId;
    this.#deps = deps;
    this.#agent = agent;
    this.#session = { hostId, nodeEpoch };
    this.#lastMessageMs = deps.monotonicMs();
    const log = deps.log.child({ host: hostId, nodeEpoch: nodeEpoch.toString() });
    this.#log = log;
    this.#commands = createCommandSender({
      store: deps.commands,
      session: this.#session,
      log,
      send: (message) => this.#send(message),
    });
    this.#usage = createUsageBatches({
      settle: (records) => deps.settle(records, nodeEpoch.toString(), hostId),
      acknowledge: (spoolIds) => this.#send({ usageAck: { spoolIds: [...spoolIds] }, body: "usageAck" }),
      refuseHost: (why) => this.#refuseHost(why),
      monotonicMs: deps.monotonicMs,
      log,
    });
    this.#reports = new HostReports(deps, {
      session: this.#session,
      inventory: hello.inventory,
      signal: this.#ending.signal,
      log,
      onWritten: async (isCurrent) => {
        if (!isCurrent) await this.#superseded();
        // Polling with each report covers lost change notifications.
        this.wake();
      },
    });
    this.#welcome();
    this.wake();
    if (!welcome.isBehind) this.#proveDataPath();
    this.ended = this.#read().finally(async () => {
      this.end("the agent disconnected");
      await this.#reports.written;
      deps.observer.forget(hostId, nodeEpoch);
    });
  }

  wake(): void {
    void this.#sendDesired();
  }

  end(why: string): void {
    if (this.#isEnding) return;
    this.#log.info({ why }, "agent session ended");
    this.#ending.abort();
    this.#agent.stream.end();
    this.#agent.messages.stop();
  }

  /**
   * An agent often reconnects before the end of its last connection is detected, also as another process after a restart:
   * the older session is then silent. Two active sessions are two agents.
   */
  replaced(by: string | undefined): void {
    if (this.#isEnding) return;
    const isActive = this.#deps.monotonicMs() - this.#lastMessageMs < this.#deps.times.renewEveryMs * maxSilence;
    if (by !== this.runId && isActive)
      this.#log.error({ alert: "second_session" }, "two agents use the identity of one host");
    else this.#log.info("agent reconnected before the end of this session was detected");
    this.end("a newer session of this host exists");
  }

  get #isEnding(): boolean {
    return this.#ending.signal.aborted;
  }

  #send(message: ControlMessage): void {
    if (!this.#isEnding) this.#agent.stream.write(message);
  }

  #fail(error: Error): void {
    this.#ending.abort();
    this.#agent.stream.emit("error", asRpcError(error));
    this.#agent.messages.stop();
  }

  /** Ends the session, and refuses the host for a while. */
  #refuseHost(why: string): void {
    if (this.#isEnding) return;
    this.#agent.pauses.begin(this.host, why);
    this.#fail(new SessionPaused(why));
  }

  /** The host has a newer epoch. If an operator caused it, the agent is notified and stops serving. */
  async #superseded(): Promise<void> {
    const isRevoked = await this.#deps.isRevoked(this.host).catch(() => false);
    if (this.#isEnding) return;
    if (isRevoked) {
      this.#log.info("host revoked; session ended");
      this.#fail(new NodeBanned(this.host));
    } else this.replaced(await this.#deps.runOf(this.host).catch(() => undefined));
  }

  #welcome(): void {
    const { times, membership, barred } = this.#deps;
    const { hello, welcome, restored } = this.#agent;
    this.#send({
      body: "welcome",
      welcome: {
        nodeEpoch: this.nodeEpoch.toString(),
        leaseTtlMs: times.leaseTtlMs,
        renewEveryMs: times.renewEveryMs,
        reportEveryMs: times.reportEveryMs,
        ticketKey: welcome.ticketKey,
        controlTimeMs: steadyTime.nowMs(),
        behind: welcome.isBehind,
        reconnectSpreadMs: membership.reconnectSpreadMs,
        barredHosts: [...barred()],
        clockToleranceMs,
        ...restored,
      },
    });
    this.#log.info(
      { hostname: hello.hostname, advertise: hello.advertise, version: hello.agentVersion },
      "agent session started",
    );
  }

  #proveDataPath(): void {
    const { hello, welcome } = this.#agent;
    const path = { ...this.#session, origin: hello.advertise, ticketKey: welcome.ticketKey };
    void this.#deps.prover
      .proveWhile(path, this.#ending.signal)
      .catch((error) => this.#log.error({ err: error }, "data path proof failed"));
  }

  async #read(): Promise<void> {
    for (;;) {
      const message = await this.#agent.messages.next();
      if (!message || this.#isEnding) return;
      this.#lastMessageMs = this.#deps.monotonicMs();
      if (message.body === "renew" && message.renew) this.#renew(message.renew.sequence);
      else if (message.body === "report" && message.report) this.#reports.take(withoutNul(message.report));
      else if (message.body === "weightsWanted" && message.weightsWanted)
        void this.#sendNeighbours(message.weightsWanted);
      else if (message.body === "commandResult" && message.commandResult)
        void this.#commands.take(withoutNul(message.commandResult));
      else if (message.body === "usage" && message.usage) this.#usage.take(message.usage.records);
    }
  }

  #renew(sequence: string): void {
    const { membership, barred, reconcile } = this.#deps;
    membership.heard(this.#session);
    const renewed = {
      sequence,
      controlTimeMs: steadyTime.nowMs(),
      databaseAway: membership.isDatabaseUnavailable,
      reconnectSpreadMs: membership.reconnectSpreadMs,
      barredHosts: [...barred()],
      ...reconcile.message,
    };
    this.#send({ renewed, body: "renewed" });
  }

  /** Sends the newest set if it was not sent yet; a concurrent wake is not lost. */
  async #sendDesired(): Promise<void> {
    this.#isSendWanted = true;
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (this.#isSendWanted && !this.#isEnding) {
        this.#isSendWanted = false;
        const set = await this.#deps.desired({ id: this.host, inventory: this.#reports.inventory });
        if (!set) continue;
        if (set.nodeEpoch !== this.nodeEpoch) {
          await this.#superseded();
          // A host that has seen a newer state must not apply the set of an older database.
        } else if (!this.#agent.welcome.isBehind) {
          if (set.generation !== this.#sentGeneration) this.#send({ desired: writeDesired(set), body: "desired" });
          this.#sentGeneration = set.generation;
          // After the set: a command refers to a generation that the host must know.
          await this.#commands.sendPending();
        }
      }
    } catch (error) {
      this.#log.warn({ err: error }, "could not read the desired set; will retry at the next report");
    } finally {
      this.#isSending = false;
    }
  }

  /** Without a reply the agent fetches from the hub. */
  async #sendNeighbours({ question, repo }: WeightsWanted__Output): Promise<void> {
    if (this.#questionCount >= maxQuestions) return;
    this.#questionCount += 1;
    const neighbours = await this.#deps.neighbours(this.host, repo.slice(0, 256)).catch((error) => {
      this.#log.warn({ err: error, repo: repo.slice(0, 256) }, "could not read a host's neighbours");
      return [];
    });
    this.#questionCount -= 1;
    this.#send({ neighbours: { question, neighbours: [...neighbours] }, body: "neighbours" });
  }
}
