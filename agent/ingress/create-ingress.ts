// The agent's data plane: HTTP in front of every instance of this host, in the order in which a request passes through it.
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { dashboardProtocol, dashboardPurpose } from "../../proto/dashboard-tunnel.ts";
import { Deadlines } from "../../proto/deadlines.ts";
import { sharedPath, sharedProtocol } from "../../proto/frames.ts";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { keepNewest } from "../../proto/keep-newest.ts";
import { onceExpired } from "../../proto/peer-tls.ts";
import { type Ticket, ticketText, verifyTicket, weightsPurpose } from "../../proto/ticket.ts";
import type { Refusal } from "../../proto/usage.ts";
import type { RouteTarget } from "../reconcile/ports.ts";
import type { Answer } from "./answer.ts";
import { AttemptRecord } from "./attempt-record.ts";
import { answerLogs, type ReadLogs } from "./control-routes.ts";
import { createDashboardTunnels, refuseUpgrade } from "./dashboard-tunnels.ts";
import { type IngressTls, openDoor } from "./door.ts";
import { isEnginePath } from "./engine-paths.ts";
import { Forward } from "./forward.ts";
import { HttpAnswer } from "./http-answer.ts";
import { ingressMetrics } from "./ingress-metrics.ts";
import { defaultLimits, type Limits } from "./limits.ts";
import { faultPoint, type Plane } from "./plane.ts";
import { type ReadBody, readBody } from "./read-body.ts";
import { answerJson, errorBody, refuse } from "./refuse.ts";
import { acceptShared, type SharedServer } from "./shared-connection.ts";
import type { UsageSpool } from "./spool.ts";
import { StoppingRequests } from "./stopping-requests.ts";
import { Target } from "./target.ts";
import { createTenantDigest } from "./tenant.ts";

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
  readonly log: Logger;
  readonly metrics?: Registry;
  readonly limits?: Partial<Limits>;
  /** Chaos tests only; see plane.ts. */
  readonly fault?: string | undefined;
}

export type Ingress = ReturnType<typeof createIngress>;

/** Deployments whose stopping requests are remembered, also while none of their instances is here. */
const maxDeployments = 1_000;
const maxGone = 1_000;
const stopsServer =
  "A request like this one was running each time the model server stopped, so it is refused for now. Change the request, or send it again later.";

export function createIngress(options: IngressOptions) {
  const { hostId, keys, controlTimeMs, ticketTimeMs = controlTimeMs, spool, log } = options;
  const clock = () => performance.now();
  const limits = { ...defaultLimits, ...options.limits };
  const targets = new Map<InstanceId, Target>();
  /** Removed from the set, with requests in flight. */
  const leaving = new Set<Target>();
  let isClosing = false;
  const plane: Plane = {
    spool,
    log,
    metrics: options.metrics ? ingressMetrics(options.metrics, () => targets.values()) : undefined,
    deadlines: new Deadlines(clock, 100),
    fault: faultPoint(options.fault),
    limits,
    clock,
    controlTimeMs,
    nodeEpoch: options.nodeEpoch,
    tenantOf: createTenantDigest(),
    heldBodyBytes: 0,
  };

  const stopping = new Map<DeploymentId, StoppingRequests>();
  /** Targets that left the set, with their unanswered requests: kept until `serverEnded` counts these or the instance is removed. */
  const gone = new Map<InstanceId, Target>();
  const stoppingOf = (id: DeploymentId) =>
    keepNewest(stopping, id, stopping.get(id) ?? new StoppingRequests(clock), maxDeployments);

  const refuseAs = (to: Answer, refusal: Refusal, message: string, retryAfterSeconds?: number): undefined => {
    plane.metrics?.count(refusal);
    refuse(to, refusal, message, retryAfterSeconds);
    return undefined;
  };

  /** Undefined: already answered. `instance`: instance that the ticket must name; undefined for the host's own routes. */
  function ticketOf(header: string, answer: Answer, instance: string | undefined): Ticket | undefined {
    const ticket = verifyTicket(header, keys(), ticketTimeMs());
    const isOther = typeof ticket !== "string" && instance !== undefined && ticket.instanceId !== instance;
    if (typeof ticket !== "string" && !isOther) return ticket;
    log.warn({ instance, problem: isOther ? "other_instance" : ticket }, "ticket refused");
    return refuseAs(answer, "ticket", "the ticket does not allow this request");
  }

  /** Returns the instance if it accepts a new request now; undefined: already refused. */
  function openTarget(answer: Answer, id: InstanceId): Target | undefined {
    const target = targets.get(id);
    if (!target) return refuseAs(answer, "unknown_instance", "no such instance on this host");
    if (isClosing || target.isDraining) return refuseAs(answer, "draining", "the instance is shutting down", 1);
    if (!target.spec.ready) return refuseAs(answer, "not_ready", "the instance is not ready", 1);
    if (!spool.isWritable) return refuseAs(answer, "spool", "this host cannot record usage", 5);
    return target;
  }

  function infer(at: InstancePath, header: string, contentType: string, answer: Answer, read: ReadBody): void {
    const arrivedMs = clock();
    const ticket = ticketOf(header, answer, at.id);
    if (!ticket) return;
    const record = new AttemptRecord(plane, ticket, ticketText(header), arrivedMs);
    answer.onAbandoned(() => record.endedUnrun("client_gone"));
    const target = openTarget(answer, at.id);
    if (!target) return;
    read((body) => {
      if (body === "too_large") {
        plane.metrics?.count("bad_request");
        record.endedUnrun("refused");
        const message = `the body is larger than ${limits.maxBodyBytes / 1024 / 1024} MiB`;
        answerJson(answer, 413, errorBody(message, "invalid_request_error", "too_large"));
        return;
      }
      if (body === "busy") return refuseAs(answer, "busy", "this host holds too many requests", 1);
      const seconds = target.stopping.refusedSeconds({ account: ticket.account, body });
      if (seconds !== undefined) {
        plane.heldBodyBytes -= body.length;
        return refuseAs(answer, "stops_server", stopsServer, seconds);
      }
      new Forward(plane, target, { ticket, record, answer, path: at.path, contentType, body, arrivedMs }).enter();
    });
  }

  const isInference = (at: InstancePath | undefined) => at !== undefined && isEnginePath(at.path);
  const noSuchPath = (answer: Answer) =>
    answerJson(answer, 404, errorBody("no such path on this agent", "invalid_request_error", "not_found"));

  function route(req: IncomingMessage, res: ServerResponse): void {
    const url = req.url ?? "/";
    const at = instancePathOf(url);
    const answer = new HttpAnswer(res);
    const header = String(req.headers["x-stoker-ticket"] ?? "");
    if (!door.allows(req.socket, url)) {
      const message = "another host may ask for weights here, and for nothing else";
      answerJson(answer, 403, errorBody(message, "invalid_request_error", "not_a_gateway"));
    } else if (door.isExpired(req.socket)) {
      res.shouldKeepAlive = false;
      refuseAs(answer, "draining", "a certificate of this connection has expired; open another one", 1);
    } else if (at && req.method === "POST" && isInference(at)) {
      const contentType = req.headers["content-type"] ?? "application/json";
      infer(at, header, contentType, answer, (done) => readBody(req, plane, done));
    } else if (at && req.method === "GET" && at.path === "/logs") {
      if (ticketOf(header, answer, at.id)) void answerLogs(url, answer, at.id, options.logs, log);
    } else if (options.weights && url.startsWith("/weights/")) {
      const ticket = ticketOf(header, answer, "");
      if (ticket?.model === weightsPurpose)
        options.weights(req, res).catch((error) => {
          log.warn({ err: error }, "could not send weights to a neighbour");
          res.destroy();
        });
      else if (ticket) refuseAs(answer, "ticket", "the ticket does not allow this request");
    } else if (url === "/healthz") answerJson(answer, 200, '{"status":"ok"}');
    else if (url === "/prove" && req.method === "POST") {
      const proof = { host_id: hostId, node_epoch: options.nodeEpoch().toString() };
      if (ticketOf(header, answer, undefined)) answerJson(answer, 200, JSON.stringify(proof));
    } else noSuchPath(answer);
  }

  const dashboards = createDashboardTunnels(log, limits.dashboardEndMs);
  function openDashboard(req: IncomingMessage, socket: Duplex, first: Buffer): void {
    const at = instancePathOf(req.url ?? "");
    const ticket = verifyTicket(String(req.headers["x-stoker-ticket"] ?? ""), keys(), ticketTimeMs());
    if (at?.path !== "/dashboard") refuseUpgrade(socket, 404);
    else if (typeof ticket !== "string" && ticket.instanceId === at.id && ticket.model === dashboardPurpose)
      dashboards.open(at.id, targets.get(at.id)?.spec.dashboard, socket, first);
    else {
      log.warn({ instance: at.id, problem: typeof ticket === "string" ? ticket : "other_purpose" }, "ticket refused");
      refuseUpgrade(socket, 401);
    }
  }

  const shared = new Set<SharedServer>();
  function upgrade(req: IncomingMessage, socket: Duplex, first: Buffer): void {
    // node:http removes its own listener: without one a reset by the peer would end this process.
    socket.on("error", () => socket.destroy());
    const wanted = req.headers.upgrade;
    if (!door.allows(socket, req.url ?? "")) refuseUpgrade(socket, 403);
    else if (isClosing || door.isExpired(socket)) refuseUpgrade(socket, 503);
    else if (wanted === dashboardProtocol) openDashboard(req, socket, first);
    else if (wanted === sharedProtocol && req.url === sharedPath) openShared(socket, first);
    else refuseUpgrade(socket, 404);
  }

  function openShared(socket: Duplex, first: Buffer): void {
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${sharedProtocol}\r\n\r\n`);
    const connection = acceptShared(
      socket,
      first,
      plane,
      ({ path, contentType, ticket, answer, readBody: read }) => {
        const at = instancePathOf(path);
        if (at && isInference(at)) infer(at, ticket, contentType, answer, read);
        else noSuchPath(answer);
      },
      () => shared.delete(connection),
    );
    shared.add(connection);
    onceExpired(socket, limits.expiredPatienceMs, () => connection.retire());
  }

  const bounds = {
    requestTimeout: 120_000,
    headersTimeout: limits.headMs,
    keepAliveTimeout: limits.idleMs,
    // Interval at which the first two limits are checked.
    connectionsCheckingInterval: limits.headMs / 2,
  };
  const door = openDoor(options.tls, { keepAlive: true, noDelay: true, ...bounds }, limits, route, log);
  const { server } = door;
  server.on("upgrade", upgrade);

  return {
    listen: () => listen(server, options.host, options.port),
    setTargets: (wanted: readonly RouteTarget[]) => {
      const ids = new Set(wanted.map((w) => w.instanceId));
      for (const [id, target] of targets)
        if (!ids.has(id)) {
          targets.delete(id);
          target.close();
          leaving.add(target);
          keepNewest(gone, id, target, maxGone);
          void target.drained(24 * 3_600_000).then(() => leaving.delete(target));
        }
      for (const spec of wanted) {
        const known = targets.get(spec.instanceId);
        if (known) known.update(spec);
        else {
          gone.delete(spec.instanceId);
          targets.set(spec.instanceId, new Target(spec, limits, clock, stoppingOf(spec.deployId)));
        }
      }
      dashboards.keep((id) => targets.get(id)?.spec.dashboard !== undefined);
    },
    stats: (id: InstanceId) => {
      const target = targets.get(id);
      if (!target) return { inFlight: 0, waiting: 0, tokensPerSecond: 0 };
      return {
        inFlight: target.running.size,
        waiting: target.waiting,
        tokensPerSecond: target.rate.perSecond(),
        tokensTotal: target.rate.total,
        finished: target.finished,
        turnedAway: target.turnedAway,
        promptTokens: target.promptTokens(),
      };
    },
    /** Its process died, or is stopped because it is stuck. Returns the deaths at which a recognised request was present; 0: none. */
    serverEnded: (id: InstanceId) => {
      const target = targets.get(id) ?? gone.get(id);
      gone.delete(id);
      return target?.serverEnded() ?? 0;
    },
    /** The instance was removed from this host: `serverEnded` will not be called for it. Releases the bodies kept for that. */
    forget: (id: InstanceId) => gone.delete(id),
    markDraining: (id: InstanceId) => targets.get(id)?.markDraining(),
    /** True once nothing is in flight, here and in the engine; false at the deadline. */
    drained: (id: InstanceId, deadlineMs: number, signal?: AbortSignal) =>
      targets.get(id)?.quiet(deadlineMs, signal) ?? Promise.resolve(true),
    /** Refuses new requests, gives those in flight `drainMs`, then cuts them and records their usage; dashboards likewise. */
    close: async (drainMs: number) => {
      isClosing = true;
      const dashboardsEnded = dashboards.close(drainMs);
      const all = [...targets.values(), ...leaving];
      for (const target of all) target.markDraining();
      let isClosed = !server.listening;
      server.close(() => {
        isClosed = true;
      });
      await Promise.all(all.map((target) => target.drained(drainMs)));
      for (const target of all) for (const request of target.running) request.cut();
      await Promise.all(all.map((target) => target.drained(limits.recordMs + 2_000)));
      await dashboardsEnded;
      // Give answers that have just ended one second to be sent.
      for (let i = 0; i < 50 && !isClosed; i++) {
        server.closeIdleConnections();
        // A shared connection never ends by itself: close it once its answers were sent.
        for (const connection of shared) connection.end();
        await wait(20);
      }
      server.closeAllConnections();
      for (const connection of shared) connection.cut();
      await Promise.all(all.map((target) => target.pool.destroy()));
      plane.deadlines.close();
    },
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
