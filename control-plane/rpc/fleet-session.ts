// One agent's session: receives Hello, renewals, reports and usage; sends the desired set, lease times and acknowledgements.
// Acknowledges only durable data; ends a session with an older epoch.
import type { Logger } from "pino";
import { bigintJson } from "../../proto/exact-json.ts";
import type { HostReport__Output } from "../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { WeightsWanted__Output } from "../../proto/gen/stoker/fleet/v1/WeightsWanted.ts";
import type { HostId, InstanceId } from "../../proto/ids.ts";
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
import type { CommandStore, FleetStore, NodeWeightsStore } from "../fleet/store.ts";
import { createCommandSender } from "./command-sender.ts";
import { type FleetStream, type Incoming, incoming } from "./incoming.ts";
import { asRpcError } from "./rpc-error.ts";
import { createUsageBatches } from "./usage-batches.ts";
import {
  readHello,
  readInventory,
  readKeptWeights,
  readLive,
  readNodeWeights,
  readObservation,
  writeDesired,
} from "./wire.ts";

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
/** Maximum instances of one report; the next report repeats the rest. */
const maxInstances = 1_000;
const maxRemoved = 1_000;
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
    first?.body === "hello" && first.hello ? readHello(first.hello, host) : { why: "no Hello received" };
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
  return serve(deps, stream, messages, hello, welcome, restored, pauses);
}

function serve(
  deps: SessionDeps,
  stream: FleetStream,
  messages: Incoming,
  hello: Hello,
  welcome: Welcome,
  restored: ReconcileMessage,
  pauses: HostPauses,
): FleetSession {
  const { hostId, nodeEpoch } = welcome;
  const log = deps.log.child({ host: hostId, nodeEpoch: nodeEpoch.toString() });
  const ending = new AbortController();
  const session = { hostId, nodeEpoch };
  let inventory = hello.inventory;
  let unwritten: Inventory | undefined;
  let lastMessageMs = deps.monotonicMs();
  let sentGeneration = -1n;
  let isSending = false;
  let isSendWanted = false;
  const commands = createCommandSender({
    store: deps.commands,
    session,
    log,
    send: (message) => void stream.write(message),
  });

  const end = (why: string): void => {
    if (ending.signal.aborted) return;
    log.info({ why }, "agent session ended");
    ending.abort();
    stream.end();
    messages.stop();
  };

  /** The host has a newer epoch. If an operator caused it, the agent is notified and stops serving. */
  async function superseded(): Promise<void> {
    const isRevoked = await deps.isRevoked(hostId).catch(() => false);
    if (ending.signal.aborted) return;
    if (isRevoked) {
      ending.abort();
      log.info("host revoked; session ended");
      stream.emit("error", asRpcError(new NodeBanned(hostId)));
      messages.stop();
    } else replaced(await deps.runOf(hostId).catch(() => undefined));
  }

  const isActive = () => deps.monotonicMs() - lastMessageMs < deps.times.renewEveryMs * maxSilence;

  /**
   * An agent often reconnects before the end of its last connection is detected, also as another process after a restart:
   * the older session is then silent. Two active sessions are two agents.
   */
  function replaced(by: string | undefined): void {
    if (ending.signal.aborted) return;
    const why = "a newer session of this host exists";
    if (by !== hello.runId && isActive())
      log.error({ alert: "second_session" }, "two agents use the identity of one host");
    else log.info("agent reconnected before the end of this session was detected");
    end(why);
  }

  /** Sends the newest set if it was not sent yet; a concurrent wake is not lost. */
  async function sendDesired(): Promise<void> {
    isSendWanted = true;
    if (isSending) return;
    isSending = true;
    try {
      while (isSendWanted && !ending.signal.aborted) {
        isSendWanted = false;
        const set = await deps.desired({ id: hostId, inventory });
        if (!set) continue;
        if (set.nodeEpoch !== nodeEpoch) {
          await superseded();
          // A host that has seen a newer state must not apply the set of an older database.
        } else if (!welcome.isBehind) {
          if (set.generation !== sentGeneration) stream.write({ desired: writeDesired(set), body: "desired" });
          sentGeneration = set.generation;
          // After the set: a command refers to a generation that the host must know.
          await commands.sendPending();
        }
      }
    } catch (error) {
      log.warn({ err: error }, "could not read the desired set; will retry at the next report");
    } finally {
      isSending = false;
    }
  }

  let writtenWeights = "[]";
  /** Undefined before the first report: a host may return with fewer weights. */
  let writtenKept: string | undefined;
  /** Writes changes only. */
  async function takeWeights(report: HostReport__Output): Promise<void> {
    const news = readNodeWeights(report.weights);
    const text = bigintJson(news);
    if (text !== writtenWeights) await deps.nodeWeights.observe(session, news);
    writtenWeights = text;
    const kept = readKeptWeights(report.weights);
    const keptText = kept.join("\n");
    if (keptText !== writtenKept) await deps.keptWeights(session, kept);
    writtenKept = keptText;
  }

  let knownResend = "";
  async function takeResend({ resend }: HostReport__Output): Promise<void> {
    if (!resend) return;
    const text = `${resend.resendId} ${resend.done}`;
    if (text === knownResend) return;
    await deps.reconcile.sawResend(hostId, {
      reconcileId: resend.resendId,
      records: BigInt(resend.records),
      dropped: BigInt(resend.dropped),
      droppedThroughMs: Number(resend.droppedThroughMs),
      isDone: resend.done,
    });
    knownResend = text;
  }

  async function take(report: HostReport__Output): Promise<void> {
    if (report.nodeEpoch !== nodeEpoch.toString()) return;
    const news = report.inventory ? readInventory(report.inventory) : unwritten;
    if (news) inventory = news;
    // An agent sends its inventory once: if a write fails, repeat it with the next report.
    unwritten = news;
    await deps.membership.report(session, {
      inventory: news,
      openLeaseIds: report.openLeaseIds,
      live: readLive(report),
    });
    unwritten = undefined;
    await takeResend(report);
    await takeWeights(report);
    const isCurrent = await deps.observer.observe({
      hostId,
      nodeEpoch,
      instances: report.instances.slice(0, maxInstances).flatMap((wire) => readObservation(wire) ?? []),
      removed: report.removed.slice(0, maxRemoved) as InstanceId[],
    });
    if (!isCurrent) await superseded();
    // Polling with each report covers lost change notifications.
    void sendDesired();
  }

  let waiting: HostReport__Output | undefined;
  let taking: Promise<void> | undefined;
  /**
   * Not awaited: a slow database must not delay renewals. One report is written at a time; of the reports in the meantime
   * only the newest is needed, except for the inventory, which is sent once.
   */
  function takeSoon(report: HostReport__Output): void {
    waiting = { ...report, inventory: report.inventory ?? waiting?.inventory ?? null };
    taking ??= takeAll().finally(() => {
      taking = undefined;
    });
  }

  async function takeAll(): Promise<void> {
    while (waiting && !ending.signal.aborted) {
      const next = waiting;
      waiting = undefined;
      await take(next).catch((error) =>
        log.warn({ err: error }, "could not write a host report; the next one repeats it"),
      );
    }
  }

  let questions = 0;
  /** Without a reply the agent fetches from the hub. */
  async function answerNeighbours({ question, repo }: WeightsWanted__Output): Promise<void> {
    if (questions >= maxQuestions) return;
    questions += 1;
    const neighbours = await deps.neighbours(hostId, repo.slice(0, 256)).catch((error) => {
      log.warn({ err: error, repo: repo.slice(0, 256) }, "could not read a host's neighbours");
      return [];
    });
    questions -= 1;
    if (!ending.signal.aborted)
      stream.write({ neighbours: { question, neighbours: [...neighbours] }, body: "neighbours" });
  }

  /** Ends the session, and refuses the host for a while. */
  function refuseHost(why: string): void {
    if (ending.signal.aborted) return;
    pauses.begin(hostId, why);
    ending.abort();
    stream.emit("error", asRpcError(new SessionPaused(why)));
    messages.stop();
  }

  const usage = createUsageBatches({
    settle: (records) => deps.settle(records, nodeEpoch.toString(), hostId),
    acknowledge: (spoolIds) => {
      if (!ending.signal.aborted) stream.write({ usageAck: { spoolIds: [...spoolIds] }, body: "usageAck" });
    },
    refuseHost,
    monotonicMs: deps.monotonicMs,
    log,
  });

  async function read(): Promise<void> {
    for (;;) {
      const message = await messages.next();
      if (!message || ending.signal.aborted) return;
      lastMessageMs = deps.monotonicMs();
      if (message.body === "renew" && message.renew) {
        deps.membership.heard(session);
        const { sequence } = message.renew;
        const { isDatabaseUnavailable: databaseAway, reconnectSpreadMs } = deps.membership;
        const barredHosts = [...deps.barred()];
        const renewed = {
          sequence,
          controlTimeMs: steadyTime.nowMs(),
          databaseAway,
          reconnectSpreadMs,
          barredHosts,
          ...deps.reconcile.message,
        };
        stream.write({ renewed, body: "renewed" });
      } else if (message.body === "report" && message.report) {
        takeSoon(message.report);
      } else if (message.body === "weightsWanted" && message.weightsWanted) {
        void answerNeighbours(message.weightsWanted);
      } else if (message.body === "commandResult" && message.commandResult) {
        void commands.take(message.commandResult);
      } else if (message.body === "usage" && message.usage) {
        usage.take(message.usage.records);
      }
    }
  }

  stream.write({
    body: "welcome",
    welcome: {
      nodeEpoch: nodeEpoch.toString(),
      leaseTtlMs: deps.times.leaseTtlMs,
      renewEveryMs: deps.times.renewEveryMs,
      reportEveryMs: deps.times.reportEveryMs,
      ticketKey: welcome.ticketKey,
      controlTimeMs: steadyTime.nowMs(),
      behind: welcome.isBehind,
      reconnectSpreadMs: deps.membership.reconnectSpreadMs,
      barredHosts: [...deps.barred()],
      clockToleranceMs,
      ...restored,
    },
  });
  log.info(
    { hostname: hello.hostname, advertise: hello.advertise, version: hello.agentVersion },
    "agent session started",
  );
  void sendDesired();
  if (!welcome.isBehind) {
    const path = { ...session, origin: hello.advertise, ticketKey: welcome.ticketKey };
    void deps.prover
      .proveWhile(path, ending.signal)
      .catch((error) => log.error({ err: error }, "data path proof failed"));
  }
  const ended = read().finally(async () => {
    end("the agent disconnected");
    await taking;
    deps.observer.forget(hostId, nodeEpoch);
  });
  const { runId } = hello;
  return { host: hostId, nodeEpoch, runId, replaced, wake: () => void sendDesired(), end, ended };
}

/** Shorter than a host's lease: a defect in an agent does not end its instances. */
export const hostPauseMs = 10_000;

/** Hosts whose session ended because of invalid messages, so that they cannot repeat expensive messages at will. */
interface HostPauses {
  begin(host: HostId, why: string): void;
  isPaused(host: HostId): boolean;
}

export function createHostPauses(deps: { readonly monotonicMs: () => number; readonly log: Logger }): HostPauses {
  const endsMs = new Map<HostId, number>();
  const isPaused = (host: HostId) => deps.monotonicMs() < (endsMs.get(host) ?? Number.NEGATIVE_INFINITY);
  return {
    begin(host, why) {
      // A host logs once per pause, however many streams it has open.
      if (!isPaused(host))
        deps.log.error({ host, why, pauseMs: hostPauseMs }, "session ended: the host sent invalid messages");
      for (const [one, endMs] of endsMs) if (endMs <= deps.monotonicMs()) endsMs.delete(one);
      endsMs.set(host, deps.monotonicMs() + hostPauseMs);
    },
    isPaused,
  };
}
