// WebSockets of the API: a matching request for an upgrade is authenticated, checked against origins and limits, and becomes a
// session. INVARIANTS: a client without a valid credential gets a refusal of the same cost as over HTTP, and is counted by address;
// every session ends when its credential does, when it is silent for too long, or when this control plane stops.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Registry } from "prom-client";
import { type WebSocket, WebSocketServer } from "ws";
import { randomId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import { InvalidApiKey } from "../../accounts/errors.ts";
import { roleRefusal } from "../../accounts/permissions.ts";
import { authenticate, type Entrance } from "../accounts/authenticate.ts";
import type { ClientOf } from "../connections/client-address.ts";
import type { AllowedOrigins } from "../connections/cors.ts";
import { apiHeaders } from "../connections/secure-headers.ts";
import type { RouteMeter } from "../core/edge-metrics.ts";
import { refuseSocket } from "../dashboards/forward-upgrade.ts";
import { restarting } from "../errors/errors.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import { OpenSessions, type SocketLimits, socketLimits } from "./open-sessions.ts";
import { closeSocket, policyViolation, type SocketDeps } from "./open-socket.ts";
import { bearer, chooseProtocol, headersWithKey } from "./socket-credential.ts";
import { checkOrigin, upgradeRequired } from "./socket-origin.ts";
import type { Arrival, SocketRoute } from "./socket-route.ts";

interface SocketEdgeDeps extends SocketDeps, Entrance {
  readonly clientOf: ClientOf;
  readonly corsOrigins: AllowedOrigins;
  readonly registry: Registry;
  readonly limits?: Partial<SocketLimits> | undefined;
}

export class SocketEdge {
  readonly #deps: SocketEdgeDeps;
  readonly #routes: readonly SocketRoute[];
  readonly #keyMs: number;
  readonly #origins: ReadonlySet<string>;
  readonly #meters: ReadonlyMap<SocketRoute, RouteMeter>;
  readonly #sessions: OpenSessions;
  readonly #server: WebSocketServer;
  /** Accepts clients whose key is in their first message. */
  readonly #strangers: WebSocketServer;

  constructor(deps: SocketEdgeDeps, routes: readonly SocketRoute[]) {
    const limits = { ...socketLimits, ...deps.limits };
    this.#deps = deps;
    this.#routes = routes;
    this.#keyMs = limits.keyMs;
    this.#origins = new Set(deps.corsOrigins);
    this.#meters = new Map(routes.map((route) => [route, deps.metrics.meter("GET", route.path)]));
    this.#sessions = new OpenSessions(deps, limits, routes);
    const options = {
      noServer: true,
      perMessageDeflate: false,
      clientTracking: false,
      closeTimeout: limits.closingMs,
      handleProtocols: chooseProtocol,
    } as const;
    this.#server = new WebSocketServer({ ...options, maxPayload: limits.maxMessageBytes });
    this.#strangers = new WebSocketServer({ ...options, maxPayload: limits.maxStrangerMessageBytes });
  }

  owns(request: IncomingMessage): boolean {
    return this.#routeOf(request) !== undefined;
  }

  /** Refuses a request for one of the paths without an upgrade, as a proxy sends it that does not pass upgrades. False: another path. */
  refusePlain(req: IncomingMessage, res: ServerResponse): boolean {
    const route = this.#routeOf(req);
    if (!route) return false;
    const arrival = this.#arrivalOf(req, route);
    let error: unknown = upgradeRequired();
    try {
      this.#deps.addresses.take(arrival.address);
    } catch (limit) {
      error = limit;
    }
    const { status, headers, body } = this.#refused(error, arrival);
    res.writeHead(status, [...headers, "upgrade", "websocket", "content-length", String(Buffer.byteLength(body))]);
    res.end(body);
    res.once("close", this.#deps.onClosed);
    return true;
  }

  upgrade(req: IncomingMessage, duplex: Duplex, first: Buffer): void {
    // node:http removes its own listener: without one a reset by the client would end this process.
    duplex.on("error", () => duplex.destroy());
    const route = this.#routeOf(req);
    if (!route) return void duplex.destroy();
    const arrival = this.#arrivalOf(req, route);
    this.#arrive(req, duplex, first, arrival).catch((error: unknown) =>
      refuseSocket(duplex, this.#refused(error, arrival)),
    );
  }

  /** Refuses new sockets. Running requests may end; then sessions are closed with 1001. */
  drain(): void {
    this.#sessions.drain();
  }

  /** Disconnects all clients at once. */
  close(): void {
    this.#sessions.close();
  }

  #routeOf({ method, url }: IncomingMessage): SocketRoute | undefined {
    return method === "GET" ? this.#routes.find(({ matches }) => matches.test(pathOf(url))) : undefined;
  }

  #arrivalOf(req: IncomingMessage, route: SocketRoute): Arrival {
    const { address, isSecure } = this.#deps.clientOf(req);
    const url = req.url as string;
    const { groups = {} } = route.matches.exec(pathOf(url)) as RegExpExecArray;
    const at = url.indexOf("?");
    return {
      route,
      meter: this.#meters.get(route) as RouteMeter,
      request: {
        params: groups as Record<string, string>,
        query: new URLSearchParams(at < 0 ? "" : url.slice(at + 1)),
        headers: req.headers,
      },
      requestId: randomId(24),
      address,
      isSecure,
      connection: req.socket,
      startedMs: performance.now(),
    };
  }

  async #arrive(req: IncomingMessage, duplex: Duplex, first: Buffer, arrival: Arrival): Promise<void> {
    const { route, request, address } = arrival;
    const sessions = this.#sessions;
    if (sessions.isDraining) throw restarting();
    checkOrigin(req.headers, this.#origins);
    const headers = headersWithKey(route, req.headers);
    if (headers) {
      const [caller, since] = await this.#enter(arrival, headers);
      route.check(request);
      if (sessions.isDraining) throw restarting();
      // Its close event may have been emitted already.
      if (duplex.destroyed) return;
      sessions.hold(caller.account);
      const release = () => sessions.release(caller.account);
      duplex.once("close", release);
      this.#server.handleUpgrade(req, duplex, first, (ws) => {
        duplex.off("close", release);
        this.#welcome(ws, arrival);
        sessions.begin(ws, arrival, caller, since);
      });
      return;
    }
    // Counts as a request without a credential until the key arrives; the connection counts by address as well.
    this.#deps.addresses.take(address);
    if (!route.keyIn) throw new InvalidApiKey();
    route.check(request);
    this.#strangers.handleUpgrade(req, duplex, first, (ws) => {
      this.#welcome(ws, arrival);
      this.#awaitKey(ws, arrival);
    });
  }

  /** Throws the errors of `authenticate`, or that the caller lacks the right. */
  async #enter({ route, address, connection }: Arrival, headers: IncomingHttpHeaders): Promise<[Caller, number]> {
    const since = this.#deps.spine.standing?.now() ?? 0;
    const caller = await authenticate(this.#deps, headers, address, connection);
    const refused = roleRefusal(route.right, caller);
    if (refused) throw refused;
    return [caller, since];
  }

  #welcome(ws: WebSocket, { meter, startedMs }: Arrival): void {
    this.#sessions.add(ws);
    // An oversized or malformed frame: ws sends the closing frame itself.
    ws.on("error", () => {});
    meter.ended(101, (performance.now() - startedMs) / 1000);
  }

  #awaitKey(ws: WebSocket, arrival: Arrival): void {
    const { route, requestId } = arrival;
    const refuse = (error: unknown) => {
      if (ws.readyState !== ws.OPEN) return;
      ws.send(JSON.stringify(route.errorMessage(error, requestId)));
      closeSocket(ws, policyViolation, refusalOf(error).code);
    };
    const late = setTimeout(() => refuse(new InvalidApiKey()), this.#keyMs);
    ws.once("close", () => clearTimeout(late));
    ws.once("message", (data) => {
      clearTimeout(late);
      // Later messages wait for the check of the key.
      ws.pause();
      const text = String(data);
      const key = route.keyIn?.(text);
      const kept: string[] = [];
      const keep = (more: unknown) => void kept.push(String(more));
      ws.on("message", keep);
      const entered = key === undefined ? Promise.reject(new InvalidApiKey()) : this.#enter(arrival, bearer(key));
      entered
        .then(([caller, since]) => {
          if (this.#sessions.isDraining) throw restarting();
          if (ws.readyState !== ws.OPEN) return;
          this.#sessions.hold(caller.account);
          ws.off("message", keep);
          const session = this.#sessions.begin(ws, arrival, caller, since);
          for (const message of [text, ...kept]) session.message(message);
          ws.resume();
        })
        .catch((error: unknown) => {
          // It may send more until it is disconnected.
          ws.off("message", keep);
          ws.resume();
          refuse(error);
        });
    });
  }

  /** Logs and counts the refusal. Returns its response. */
  #refused(error: unknown, { route, meter, requestId, isSecure, startedMs }: Arrival) {
    const refusal = refusalOf(error);
    const { status, headers, body } = renderError(refusal, route.dialect, requestId);
    meter.ended(status, (performance.now() - startedMs) / 1000);
    const line = { requestId, route: route.path, status, error: refusal.code, err: refusal.cause };
    if (status >= 500 && refusal.cause !== undefined) this.#deps.log.error(line, "websocket refused");
    else this.#deps.log.info(line, "websocket refused");
    return { status, headers: [...headers, ...apiHeaders(isSecure), "x-request-id", requestId], body };
  }
}

const pathOf = (url = "/") => url.split("?", 1)[0] as string;
