// One agent's session: Hello, then renewals, reports and usage from it; its whole desired set, lease times and
// acknowledgements to it. Only what is durable is acknowledged; a session with an older epoch is ended.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { AgentMessage__Output } from "../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { ControlMessage } from "../../proto/gen/stoker/fleet/v1/ControlMessage.ts";
import type { HostReport__Output } from "../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { WeightsWanted__Output } from "../../proto/gen/stoker/fleet/v1/WeightsWanted.ts";
import type { HostId, InstanceId } from "../../proto/ids.ts";
import { readUsageBatch, type SpooledRecord } from "../../proto/usage-record.ts";
import type { DesiredSet } from "../deployments/desired.ts";
import type { Observer } from "../deployments/observe.ts";
import { NodeBanned, NodeRefused } from "../fleet/errors.ts";
import type { Inventory } from "../fleet/host.ts";
import type { Hello, Membership, Welcome } from "../fleet/membership.ts";
import type { FindNeighbours } from "../fleet/neighbours.ts";
import type { Prover } from "../fleet/prover.ts";
import type { CommandStore, FleetStore, NodeWeightsStore } from "../fleet/store.ts";
import { createCommandSender } from "./command-sender.ts";
import { readLive } from "./read-live.ts";
import { asRpcError } from "./rpc-error.ts";
import { readHello, readInventory, readKeptWeights, readNodeWeights, readObservation, writeDesired } from "./wire.ts";

export type FleetStream = ServerDuplexStream<AgentMessage__Output, ControlMessage>;

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
  readonly isRevoked: (host: HostId) => Promise<boolean>;
  readonly runOf: FleetStore["runOf"];
  /** Hosts that others are to refuse, as last read. */
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
  /** A newer session of the host began, by that process of an agent; ends this one. */
  replaced(by: string | undefined): void;
  readonly runId: string;
  /** The host's desired set may have changed. */
  wake(): void;
  end(why: string): void;
  readonly ended: Promise<void>;
}

const helloLimitMs = 10_000;
/** Times a renewal's interval: one may be late. */
const heardWithin = 1.5;

/**
 * Undefined when no valid Hello came in time. Registers the host, which is the certificate's, and serves the stream until
 * either side ends it.
 */
export async function openSession(
  deps: SessionDeps,
  stream: FleetStream,
  host: HostId,
): Promise<FleetSession | undefined> {
  const messages = incoming(stream);
  const first = await messages.next(helloLimitMs);
  const introduction = first?.body === "hello" && first.hello ? readHello(first.hello, host) : { why: "no Hello came" };
  if ("why" in introduction) {
    deps.log.warn({ peer: stream.getPeer(), host, why: introduction.why }, "an agent's session was refused");
    stream.emit("error", asRpcError(new NodeRefused(introduction.why)));
    return undefined;
  }
  const { hello } = introduction;
  let welcome: Welcome;
  try {
    welcome = await deps.membership.register(hello);
  } catch (error) {
    deps.log.warn({ err: error, host }, "an agent could not be registered; it comes again");
    stream.emit("error", asRpcError(error));
    return undefined;
  }
  return serve(deps, stream, messages, hello, welcome);
}

function serve(
  deps: SessionDeps,
  stream: FleetStream,
  messages: Incoming,
  hello: Hello,
  welcome: Welcome,
): FleetSession {
  const { hostId, nodeEpoch } = welcome;
  const log = deps.log.child({ host: hostId, nodeEpoch: nodeEpoch.toString() });
  const ending = new AbortController();
  const session = { hostId, nodeEpoch };
  let inventory = hello.inventory;
  let untold: Inventory | undefined;
  let heardMs = deps.monotonicMs();
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

  /** The host has another epoch now. Its operator's doing is told to the agent, which serves nothing from then on. */
  async function superseded(): Promise<void> {
    const isRevoked = await deps.isRevoked(hostId).catch(() => false);
    if (ending.signal.aborted) return;
    if (isRevoked) {
      ending.abort();
      log.info("the host was revoked: its session ends");
      stream.emit("error", asRpcError(new NodeBanned(hostId)));
      messages.stop();
    } else replaced(await deps.runOf(hostId).catch(() => undefined));
  }

  const isHeard = () => deps.monotonicMs() - heardMs < deps.times.renewEveryMs * heardWithin;

  /**
   * An agent often comes back before the end of its last connection was noticed, also as another process once its host was
   * started anew: the older session is silent then. Two that both speak are two agents.
   */
  function replaced(by: string | undefined): void {
    if (ending.signal.aborted) return;
    const why = "a newer session of this host exists";
    if (by !== hello.runId && isHeard()) log.error({ alert: "second_session" }, "two agents speak as one host");
    else log.info("the agent came back before the end of this session was noticed");
    end(why);
  }

  /** Sends the newest set if it was not sent yet; a wake meanwhile is not lost. */
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
          // What an older control plane believes must not be obeyed by a host that has seen a newer one.
        } else if (!welcome.isBehind) {
          if (set.generation !== sentGeneration) stream.write({ desired: writeDesired(set), body: "desired" });
          sentGeneration = set.generation;
          // After the set: a command is of a generation that the host then knows.
          await commands.sendPending();
        }
      }
    } catch (error) {
      log.warn({ err: error }, "the desired set could not be read; it is sent at the next look");
    } finally {
      isSending = false;
    }
  }

  let toldWeights = "[]";
  /** Undefined before the first: a host may come back with less than it had. */
  let toldKept: string | undefined;
  /** Written when it says something new. */
  async function takeWeights(report: HostReport__Output): Promise<void> {
    const news = readNodeWeights(report.weights);
    const text = JSON.stringify(news, (_, value) => (typeof value === "bigint" ? String(value) : value));
    if (text !== toldWeights) await deps.nodeWeights.observe(session, news);
    toldWeights = text;
    const kept = readKeptWeights(report.weights);
    const keptText = kept.join("\n");
    if (keptText !== toldKept) await deps.keptWeights(session, kept);
    toldKept = keptText;
  }

  async function take(report: HostReport__Output): Promise<void> {
    if (report.nodeEpoch !== nodeEpoch.toString()) return;
    const news = report.inventory ? readInventory(report.inventory) : untold;
    if (news) inventory = news;
    // An agent tells its inventory once: what could not be written is written with the next report.
    untold = news;
    await deps.membership.report(session, {
      inventory: news,
      openLeaseIds: report.openLeaseIds,
      live: readLive(report),
    });
    untold = undefined;
    await takeWeights(report);
    const isCurrent = await deps.observer.observe({
      hostId,
      nodeEpoch,
      instances: report.instances.flatMap((wire) => readObservation(wire) ?? []),
      removed: report.removed as InstanceId[],
    });
    if (!isCurrent) await superseded();
    // A look at each report is the net below the pushed changes.
    void sendDesired();
  }

  let waiting: HostReport__Output | undefined;
  let taking: Promise<void> | undefined;
  /**
   * Not waited for: a database that takes its time must not hold up renewals. One report is written at a time; of those
   * that come meanwhile the newest says it all, but for the inventory, which is told once.
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
        log.warn({ err: error }, "a host report was not written; the next says it again"),
      );
    }
  }

  /** Without an answer the agent goes on to the hub. */
  async function answerNeighbours({ question, repo }: WeightsWanted__Output): Promise<void> {
    const neighbours = await deps.neighbours(hostId, repo.slice(0, 256)).catch((error) => {
      log.warn({ err: error, repo }, "a host's neighbours could not be read");
      return [];
    });
    if (!ending.signal.aborted)
      stream.write({ neighbours: { question, neighbours: [...neighbours] }, body: "neighbours" });
  }

  /** Not waited for: a slow settlement must not hold up renewals. */
  function settle(batch: string): void {
    let records: readonly SpooledRecord[];
    try {
      records = readUsageBatch(batch);
    } catch (error) {
      log.error({ err: error }, "a batch of usage cannot be read; the agent keeps it and sends it again");
      return;
    }
    void deps.settle(records, nodeEpoch.toString(), session.hostId).then((spoolIds) => {
      // Also when nothing of it is durable: then others may be.
      if (!ending.signal.aborted) stream.write({ usageAck: { spoolIds: [...spoolIds] }, body: "usageAck" });
    });
  }

  async function read(): Promise<void> {
    for (;;) {
      const message = await messages.next();
      if (!message || ending.signal.aborted) return;
      heardMs = deps.monotonicMs();
      if (message.body === "renew" && message.renew) {
        deps.membership.heard(session);
        const { sequence } = message.renew;
        const { isDatabaseAway: databaseAway, reconnectSpreadMs } = deps.membership;
        const barredHosts = [...deps.barred()];
        const renewed = { sequence, controlTimeMs: Date.now(), databaseAway, reconnectSpreadMs, barredHosts };
        stream.write({ renewed, body: "renewed" });
      } else if (message.body === "report" && message.report) {
        takeSoon(message.report);
      } else if (message.body === "weightsWanted" && message.weightsWanted) {
        void answerNeighbours(message.weightsWanted);
      } else if (message.body === "commandResult" && message.commandResult) {
        void commands.take(message.commandResult);
      } else if (message.body === "usage" && message.usage) {
        settle(message.usage.records);
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
      controlTimeMs: Date.now(),
      behind: welcome.isBehind,
      reconnectSpreadMs: deps.membership.reconnectSpreadMs,
      barredHosts: [...deps.barred()],
    },
  });
  log.info(
    { hostname: hello.hostname, advertise: hello.advertise, version: hello.agentVersion },
    "agent session began",
  );
  void sendDesired();
  if (!welcome.isBehind) {
    const path = { ...session, origin: hello.advertise, ticketKey: welcome.ticketKey };
    void deps.prover
      .proveWhile(path, ending.signal)
      .catch((error) => log.error({ err: error }, "the data path proof ended"));
  }
  const ended = read().finally(async () => {
    end("the agent ended it");
    await taking;
    deps.observer.forget(hostId, nodeEpoch);
  });
  const { runId } = hello;
  return { host: hostId, nodeEpoch, runId, replaced, wake: () => void sendDesired(), end, ended };
}

interface Incoming {
  /** Undefined when the stream ended or nothing came in time. */
  next(limitMs?: number): Promise<AgentMessage__Output | undefined>;
  /** Nothing more is wanted. */
  stop(): void;
}

const pauseAbove = 64;

/** Messages in order, with back-pressure: an agent that sends faster than the database writes is made to wait. */
function incoming(stream: FleetStream): Incoming {
  const queue: AgentMessage__Output[] = [];
  let isOver = false;
  let notify = () => {};
  const over = () => {
    isOver = true;
    notify();
  };
  stream.on("data", (message: AgentMessage__Output) => {
    queue.push(message);
    if (queue.length > pauseAbove) stream.pause();
    notify();
  });
  for (const event of ["end", "error", "close", "cancelled"]) stream.on(event, over);

  return {
    stop: over,
    async next(limitMs) {
      const deadline = limitMs === undefined ? undefined : performance.now() + limitMs;
      for (;;) {
        const message = queue.shift();
        if (message) {
          if (queue.length === pauseAbove / 2) stream.resume();
          return message;
        }
        const leftMs = deadline === undefined ? undefined : deadline - performance.now();
        if (isOver || (leftMs !== undefined && leftMs <= 0)) return undefined;
        await new Promise<void>((resolve) => {
          const timer = leftMs === undefined ? undefined : setTimeout(resolve, leftMs);
          notify = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    },
  };
}
