// The agent's data plane: HTTP in front of every instance of this host, in the order in which a request passes through it.
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { Deadlines } from "../../proto/deadlines.ts";
import { faultPoint } from "../../proto/fault-point.ts";
import { sharedPath, sharedProtocol } from "../../proto/frames.ts";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { keepNewest } from "../../proto/keep-newest.ts";
import { onceExpired } from "../../proto/peer-tls.ts";
import { type Ticket, ticketText, verifyTicket, weightsPurpose } from "../../proto/ticket.ts";
import type { Tracing } from "../../proto/tracing.ts";
import type { Refusal } from "../../proto/usage.ts";
import type { RouteTarget } from "../reconcile/ports.ts";
import type { Answer } from "./answer.ts";
import { AttemptRecord } from "./attempt-record.ts";
import { answerLogs, type ReadLogs } from "./control-routes.ts";
import { type IngressTls, openDoor } from "./door.ts";
import { isEnginePath } from "./engine-paths.ts";
import { Forward } from "./forward.ts";
import { HttpAnswer } from "./http-answer.ts";
import { ingressMetrics } from "./ingress-metrics.ts";
import { defaultLimits, type Limits } from "./limits.ts";
import type { Plane } from "./plane.ts";
import { type ReadBody, readBody } from "./read-body.ts";
import { answerJson, errorBody, refuse } from "./refuse.ts";
import { refuseUpgrade } from "./refuse-upgrade.ts";
import { acceptShared, type SharedServer } from "./shared-connection.ts";
import type { UsageSpool } from "./spool.ts";
import { StoppingRequests } from "./stopping-requests.ts";
import { Target } from "./target.ts";
import { createTenantDigest } from "./tenant.ts";
import type { OpenShell } from "./terminals.ts";
import { createTunnels } from "./tunnels.ts";

export interface IngressOptions {
  readonly host: string;
  readonly port: number;
  readonly hostId: HostId;
  readonly tls?: IngressTls | undefined;
  /** Ticket keys of the session: current, then previous. */
  readonly keys: () => readonly Buffer[];
  readonly nodeEpoch: () => bigint;
  /** Unix ms in control-plane time. */
  readonly controlTimeMs: () => number;
  /** Time to compare the expiry of tickets with; `controlTimeMs` if absent. */
  readonly ticketTimeMs?: () => number;
  readonly spool: UsageSpool;
  readonly logs: ReadLogs;
  /** Serves the weights cache to neighbours; callers have a ticket of this host. */
  readonly weights?: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** Absent: the operator allows no terminals on this host. */
  readonly openShell?: OpenShell | undefined;
  readonly log: Logger;
  /** Undefined: traces are off. */
  readonly tracing?: Tracing | undefined;
  readonly metrics?: Registry;
  readonly limits?: Partial<Limits>;
  /** Chaos tests only; see plane.ts. */
  readonly fault?: string | undefined;
}

/** Deployments whose stopping requests are remembered, also while none of their instances is here. */
const maxDeployments = 1_000;
const maxGone = 1_000;
const stopsServer =
  "A request like this one was running each time the model server stopped, so it is refused for now. Change the request, or send it again later.";

const oneChoice = "n must be 1 on this model, because its engine counts the tokens of one choice only.";

const clock = () => performance.now();

export class Ingress {
  readonly #options: IngressOptions;
  readonly #log: Logger;
  readonly #ticketTimeMs: () => number;
  readonly #limits: Limits;
  readonly #targets = new Map<InstanceId, Target>();
  readonly #idleListeners: (() => void)[] = [];
  readonly #becameIdle = (): void => {
    for (const listener of this.#idleListeners) listener();
  };
  /** Removed from the set, with requests in flight. */
  readonly #leaving = new Set<Target>();
  #isClosing = false;
  readonly #plane: Plane;
  readonly #stopping = new Map<DeploymentId, StoppingRequests>();
  /** Targets that left the set, with their unanswered requests: kept until `serverEnded` counts these or the instance is removed. */
  readonly #gone = new Map<InstanceId, Target>();
  readonly #tunnels: ReturnType<typeof createTunnels>;
  readonly #shared = new Set<SharedServer>();
  readonly #door: ReturnType<typeof openDoor>;
  readonly #server: Server;

  constructor(options: IngressOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#ticketTimeMs = options.ticketTimeMs ?? options.controlTimeMs;
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#plane = {
      spool: options.spool,
      log: options.log,
      tracing: options.tracing,
      metrics: options.metrics ? ingressMetrics(options.metrics, () => this.#targets.values()) : undefined,
      deadlines: new Deadlines(clock, 100),
      fault: faultPoint(options.fault),
      limits: this.#limits,
      clock,
      controlTimeMs: options.controlTimeMs,
      nodeEpoch: options.nodeEpoch,
      tenantOf: createTenantDigest(),
      heldBodyBytes: 0,
    };
    this.#tunnels = createTunnels({
      ...options,
      ticketTimeMs: this.#ticketTimeMs,
      dashboardEndMs: this.#limits.dashboardEndMs,
      dashboardOf: (id) => this.#targets.get(id)?.spec.dashboard,
      openShell: options.openShell,
    });
    const bounds = {
      requestTimeout: 120_000,
      headersTimeout: this.#limits.headMs,
      keepAliveTimeout: this.#limits.idleMs,
      // Interval at which the first two limits are checked.
      connectionsCheckingInterval: this.#limits.headMs / 2,
    };
    const sockets = { keepAlive: true, noDelay: true, ...bounds };
    this.#door = openDoor(options.tls, sockets, this.#limits, this.#route, options.log);
    this.#server = this.#door.server;
    this.#server.on("upgrade", this.#upgrade);
  }

  readonly #stoppingOf = (id: DeploymentId) =>
    keepNewest(this.#stopping, id, this.#stopping.get(id) ?? new StoppingRequests(clock), maxDeployments);

  readonly #refuseAs = (to: Answer, refusal: Refusal, message: string, retryAfterSeconds?: number): undefined => {
    this.#plane.metrics?.count(refusal);
    refuse(to, refusal, message, retryAfterSeconds);
    return undefined;
  };

  readonly #isInference = (at: InstancePath | undefined) => at !== undefined && isEnginePath(at.path);

  readonly #noSuchPath = (answer: Answer) =>
    answerJson(answer, 404, errorBody("no such path on this agent", "invalid_request_error", "not_found"));

  /** Undefined: already answered. `instance`: instance that the ticket must name; undefined for the host's own routes. */
  #ticketOf(header: string, answer: Answer, instance: string | undefined): Ticket | undefined {
    const ticket = verifyTicket(header, this.#options.keys(), this.#ticketTimeMs());
    const isOther = typeof ticket !== "string" && instance !== undefined && ticket.instanceId !== instance;
    if (typeof ticket !== "string" && !isOther) return ticket;
    this.#log.warn({ instance, problem: isOther ? "other_instance" : ticket }, "ticket refused");
    return this.#refuseAs(answer, "ticket", "the ticket does not allow this request");
  }

  /** Returns the instance if it accepts a new request now; undefined: already refused. */
  #openTarget(answer: Answer, id: InstanceId): Target | undefined {
    const target = this.#targets.get(id);
    if (!target) return this.#refuseAs(answer, "unknown_instance", "no such instance on this host");
    if (this.#isClosing || target.isDraining)
      return this.#refuseAs(answer, "draining", "the instance is shutting down", 1);
    if (!target.isReady) return this.#refuseAs(answer, "not_ready", "the instance is not ready", 1);
    if (!this.#options.spool.isWritable) return this.#refuseAs(answer, "spool", "this host cannot record usage", 5);
    return target;
  }

  #infer(at: InstancePath, header: string, contentType: string, answer: Answer, read: ReadBody): void {
    const arrivedMs = clock();
    const ticket = this.#ticketOf(header, answer, at.id);
    if (!ticket) return;
    const record = new AttemptRecord(this.#plane, ticket, ticketText(header), arrivedMs);
    answer.onAbandoned(() => record.endedUnrun("client_gone", 499));
    const target = this.#openTarget(answer, at.id);
    if (!target) return;
    if (ticket.permits > 1 && target.spec.countsOneChoice) {
      this.#plane.metrics?.count("bad_request");
      record.endedUnrun("refused", 400);
      answerJson(answer, 400, errorBody(oneChoice, "invalid_request_error", "unsupported_value", "n"));
      return;
    }
    read((body) => {
      if (body === "too_large") {
        this.#plane.metrics?.count("bad_request");
        record.endedUnrun("refused", 413);
        const message = `the body is larger than ${this.#limits.maxBodyBytes / 1024 / 1024} MiB`;
        answerJson(answer, 413, errorBody(message, "invalid_request_error", "too_large"));
        return;
      }
      if (body === "busy") return this.#refuseAs(answer, "busy", "this host holds too many requests", 1);
      const seconds = target.stopping.refusedSeconds({ account: ticket.account, body });
      if (seconds !== undefined) {
        this.#plane.heldBodyBytes -= body.length;
        return this.#refuseAs(answer, "stops_server", stopsServer, seconds);
      }
      // It was put to sleep while the body was read.
      if (!target.isReady) {
        this.#plane.heldBodyBytes -= body.length;
        return this.#refuseAs(answer, "not_ready", "the instance is not ready", 1);
      }
      new Forward(this.#plane, target, { ticket, record, answer, path: at.path, contentType, body, arrivedMs }).enter();
    });
  }

  readonly #route = (req: IncomingMessage, res: ServerResponse): void => {
    const url = req.url ?? "/";
    const at = instancePathOf(url);
    const answer = new HttpAnswer(res);
    const header = String(req.headers["x-stoker-ticket"] ?? "");
    if (!this.#door.allows(req.socket, url)) {
      const message = "another host may only request weights here";
      answerJson(answer, 403, errorBody(message, "invalid_request_error", "not_a_gateway"));
    } else if (this.#door.isExpired(req.socket)) {
      res.shouldKeepAlive = false;
      this.#refuseAs(answer, "draining", "a certificate of this connection has expired; open another one", 1);
    } else if (at && req.method === "POST" && this.#isInference(at)) {
      const contentType = req.headers["content-type"] ?? "application/json";
      this.#infer(at, header, contentType, answer, (done) => readBody(req, this.#plane, done));
    } else if (at && req.method === "GET" && at.path === "/logs") {
      if (this.#ticketOf(header, answer, at.id)) void answerLogs(url, answer, at.id, this.#options.logs, this.#log);
    } else if (this.#options.weights && url.startsWith("/weights/")) {
      const ticket = this.#ticketOf(header, answer, "");
      if (ticket?.model === weightsPurpose)
        this.#options.weights(req, res).catch((error) => {
          this.#log.warn({ err: error }, "could not send weights to a neighbour");
          res.destroy();
        });
      else if (ticket) this.#refuseAs(answer, "ticket", "the ticket does not allow this request");
    } else if (url === "/healthz") answerJson(answer, 200, '{"status":"ok"}');
    else if (url === "/prove" && req.method === "POST") {
      const proof = { host_id: this.#options.hostId, node_epoch: this.#options.nodeEpoch().toString() };
      if (this.#ticketOf(header, answer, undefined)) answerJson(answer, 200, JSON.stringify(proof));
    } else this.#noSuchPath(answer);
  };

  readonly #upgrade = (req: IncomingMessage, socket: Duplex, first: Buffer): void => {
    // node:http removes its own listener: without one a reset by the peer would end this process.
    socket.on("error", () => socket.destroy());
    const wanted = req.headers.upgrade;
    if (!this.#door.allows(socket, req.url ?? "")) refuseUpgrade(socket, 403);
    else if (this.#isClosing || this.#door.isExpired(socket)) refuseUpgrade(socket, 503);
    else if (this.#tunnels.takes(wanted)) this.#tunnels.open(req, socket, first);
    else if (wanted === sharedProtocol && req.url === sharedPath) this.#openShared(socket, first);
    else refuseUpgrade(socket, 404);
  };

  #openShared(socket: Duplex, first: Buffer): void {
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${sharedProtocol}\r\n\r\n`);
    const connection = acceptShared(
      socket,
      first,
      this.#plane,
      ({ path, contentType, ticket, answer, readBody: read }) => {
        const at = instancePathOf(path);
        if (at && this.#isInference(at)) this.#infer(at, ticket, contentType, answer, read);
        else this.#noSuchPath(answer);
      },
      () => this.#shared.delete(connection),
    );
    this.#shared.add(connection);
    onceExpired(socket, this.#limits.expiredPatienceMs, () => connection.retire());
  }

  readonly listen = () => listen(this.#server, this.#options.host, this.#options.port);

  readonly setTargets = (wanted: readonly RouteTarget[]) => {
    const ids = new Set(wanted.map((w) => w.instanceId));
    for (const [id, target] of this.#targets)
      if (!ids.has(id)) {
        this.#targets.delete(id);
        this.#leaving.add(target);
        keepNewest(this.#gone, id, target, maxGone);
        void target.close().then(() => this.#leaving.delete(target));
      }
    for (const spec of wanted) {
      const known = this.#targets.get(spec.instanceId);
      if (known) known.update(spec);
      else {
        this.#gone.delete(spec.instanceId);
        this.#targets.set(
          spec.instanceId,
          new Target(spec, this.#limits, clock, this.#stoppingOf(spec.deployId), this.#becameIdle),
        );
      }
    }
    this.#tunnels.keepDashboards((id) => this.#targets.get(id)?.spec.dashboard !== undefined);
  };

  /** Instances in whose containers their accounts may open terminals. */
  readonly allowTerminals = (ids: ReadonlySet<InstanceId>) => this.#tunnels.allowTerminals(ids);

  readonly stats = (id: InstanceId) => {
    const target = this.#targets.get(id);
    if (!target) return { inFlight: 0, waiting: 0, tokensPerSecond: 0 };
    return {
      inFlight: target.running.size,
      waiting: target.waiting,
      tokensPerSecond: target.rate.perSecond(),
      tokensTotal: target.rate.total,
      finished: target.finished,
      turnedAway: target.turnedAway,
      queueP95Ms: target.queueTimes.p95(),
      ttftP95Ms: target.firstTokenTimes.p95(),
      promptTokens: target.promptTokens(),
      unusedMs: target.unusedMs,
    };
  };

  /** Its process died, or is stopped because it is stuck. Returns the deaths at which a recognised request was present; 0: none. */
  readonly serverEnded = (id: InstanceId) => {
    const target = this.#targets.get(id) ?? this.#gone.get(id);
    this.#gone.delete(id);
    return target?.serverEnded() ?? 0;
  };

  /** The instance was removed from this host: `serverEnded` will not be called for it. Releases the bodies kept for that. */
  readonly forget = (id: InstanceId) => this.#gone.delete(id);

  readonly rest = (id: InstanceId) => this.#targets.get(id)?.rest() ?? true;

  readonly resume = (id: InstanceId) => this.#targets.get(id)?.resume();

  readonly onIdle = (listener: () => void) => void this.#idleListeners.push(listener);

  readonly markDraining = (id: InstanceId) => this.#targets.get(id)?.markDraining();

  /** True once nothing is in flight, here and in the engine; false at the deadline. */
  readonly drained = async (id: InstanceId, deadlineMs: number, signal?: AbortSignal) => {
    const idle = await Promise.all(this.#holding(id).map((target) => target.quiet(deadlineMs, signal)));
    return idle.every(Boolean);
  };

  /** Cuts what runs on an instance after its drain. Resolves once the usage is recorded, at the latest when that takes too long. */
  readonly cut = async (id: InstanceId) => {
    await this.#cut(this.#holding(id));
  };

  /** Targets with requests of an instance. One with a tombstone has left the set and finishes them. */
  #holding(id: InstanceId): readonly Target[] {
    const current = this.#targets.get(id);
    const left = [...this.#leaving].filter(({ spec }) => spec.instanceId === id);
    return current ? [current, ...left] : left;
  }

  async #cut(targets: readonly Target[]): Promise<void> {
    for (const target of targets) for (const request of target.running) request.cut();
    await Promise.all(targets.map((target) => target.drained(this.#limits.recordMs + 2_000)));
  }

  /** Refuses new requests, gives those in flight `drainMs`, then cuts them and records their usage; dashboards likewise. */
  readonly close = async (drainMs: number) => {
    this.#isClosing = true;
    const tunnelsEnded = this.#tunnels.close(drainMs);
    const all = [...this.#targets.values(), ...this.#leaving];
    for (const target of all) target.markDraining();
    let isClosed = !this.#server.listening;
    this.#server.close(() => {
      isClosed = true;
    });
    await Promise.all(all.map((target) => target.drained(drainMs)));
    await this.#cut(all);
    await tunnelsEnded;
    // Give answers that have just ended one second to be sent.
    for (let i = 0; i < 50 && !isClosed; i++) {
      this.#server.closeIdleConnections();
      // A shared connection never ends by itself: close it once its answers were sent.
      for (const connection of this.#shared) connection.end();
      await wait(20);
    }
    this.#server.closeAllConnections();
    for (const connection of this.#shared) connection.cut();
    await Promise.all(all.map((target) => target.pool.destroy()));
    this.#plane.deadlines.close();
  };
}

async function listen(server: Server, host: string, port: number): Promise<{ port: number }> {
  server.listen(port, host);
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port };
}

interface InstancePath {
  readonly id: InstanceId;
  readonly path: string;
}

/** `/i/{instance}/rest?query` */
function instancePathOf(url: string): InstancePath | undefined {
  const slash = url.startsWith("/i/") ? url.indexOf("/", 3) : -1;
  if (slash < 0) return undefined;
  const query = url.indexOf("?", slash);
  return { id: url.slice(3, slash) as InstanceId, path: url.slice(slash, query < 0 ? undefined : query) };
}
