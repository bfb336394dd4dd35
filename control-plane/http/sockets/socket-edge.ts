// WebSockets of the API: a matching request for an upgrade is authenticated, checked against origins and limits, and becomes a
// session. INVARIANTS: a client without a valid credential gets a refusal of the same cost as over HTTP, and is counted by address;
// every session ends when its credential does, when it is silent for too long, or when this control plane stops.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Gauge, type Registry } from "prom-client";
import { type WebSocket, WebSocketServer } from "ws";
import { randomId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import { InvalidApiKey } from "../../accounts/errors.ts";
import { forbidden, rateLimited } from "../../service-error.ts";
import { authenticate, type Entrance } from "../accounts/authenticate.ts";
import type { ClientOf } from "../connections/client-address.ts";
import type { AllowedOrigins } from "../connections/cors.ts";
import { apiHeaders } from "../connections/secure-headers.ts";
import type { RouteMeter } from "../core/edge-metrics.ts";
import { roleRefusal } from "../core/role-refusal.ts";
import { refuseSocket } from "../dashboards/forward-upgrade.ts";
import type { Dialect } from "../errors/error-body.ts";
import { ProtocolError, restarting } from "../errors/errors.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import { goingAway, OpenSocket, policyViolation, type SocketDeps } from "./open-socket.ts";

/** A protocol over a socket. Implementations must not throw. */
export interface SocketSession {
  /** Requests run or wait. */
  readonly isBusy: boolean;
  /** Maximum time without a message while nothing runs. */
  readonly idleMs: number;
  message(text: string): void;
  /** Ends the session when the running request has ended. */
  leave(): void;
  /** The client is silent for too long. */
  idle(): void;
  closed(): void;
}

export interface SocketRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
}

export interface SocketRoute {
  /** Pattern in logs and metrics. */
  readonly path: string;
  readonly dialect: Dialect;
  /** Matches the path of a URL; named groups are parameters. */
  readonly matches: RegExp;
  /** Prefix of the subprotocol that carries a key; undefined: none does. */
  readonly keyProtocol?: string;
  /** Reads the key in the first message of a client that sent none with its request; undefined: none may. */
  readonly keyIn?: (message: string) => string | undefined;
  /** Frame that reports an error before the close. */
  readonly errorMessage: (error: unknown, requestId: string) => object;
  /** Throws a ServiceError, which refuses the upgrade. */
  check(request: SocketRequest): void;
  open(socket: OpenSocket, request: SocketRequest): SocketSession;
}

export interface SocketLimits {
  readonly maxSessionsPerAccount: number;
  /** Maximum bytes of one message. */
  readonly maxMessageBytes: number;
  /** The same for clients whose key is in their first message. */
  readonly maxStrangerMessageBytes: number;
  /** Time for the first message with a key. */
  readonly keyMs: number;
  /** Interval of checks of credentials, silence and unread messages. */
  readonly checkMs: number;
  /** Interval of pings; two without a reply disconnect the client. */
  readonly pingMs: number;
  /** Maximum time for a client to read what it was sent. */
  readonly unreadMs: number;
  /** For running requests when this control plane stops. */
  readonly leaveMs: number;
  /** For the closing handshake. */
  readonly closingMs: number;
}

export const socketLimits: SocketLimits = {
  maxSessionsPerAccount: 64,
  maxMessageBytes: 1024 * 1024,
  maxStrangerMessageBytes: 64 * 1024,
  keyMs: 10_000,
  checkMs: 2_000,
  pingMs: 30_000,
  unreadMs: 150_000,
  leaveMs: 25_000,
  closingMs: 5_000,
};

interface SocketEdgeDeps extends SocketDeps, Entrance {
  readonly clientOf: ClientOf;
  readonly corsOrigins: AllowedOrigins;
  readonly registry: Registry;
  readonly limits?: Partial<SocketLimits> | undefined;
}

interface Entry {
  readonly socket: OpenSocket;
  readonly session: SocketSession;
  readonly ws: WebSocket;
  lastMessageMs: number;
  unansweredPings: number;
  lastPingMs: number;
}

/** A request that may become a session. */
interface Arrival {
  readonly route: SocketRoute;
  readonly meter: RouteMeter;
  readonly request: SocketRequest;
  readonly requestId: string;
  readonly address: string;
  readonly isSecure: boolean;
  readonly connection: Socket;
  readonly startedMs: number;
}

export function createSocketEdge(deps: SocketEdgeDeps, routes: readonly SocketRoute[]) {
  const limits = { ...socketLimits, ...deps.limits };
  const origins = new Set(deps.corsOrigins);
  const meters = new Map(routes.map((route) => [route, deps.metrics.meter("GET", route.path)]));
  const options = {
    noServer: true,
    perMessageDeflate: false,
    clientTracking: false,
    closeTimeout: limits.closingMs,
  } as const;
  const server = new WebSocketServer({
    ...options,
    maxPayload: limits.maxMessageBytes,
    handleProtocols: chooseProtocol,
  });
  const strangers = new WebSocketServer({
    ...options,
    maxPayload: limits.maxStrangerMessageBytes,
    handleProtocols: chooseProtocol,
  });
  const entries = new Set<Entry>();
  const counts = new Map<string, number>();
  const connected = new Set<WebSocket>();
  let isDraining = false;
  const timer = setInterval(() => checkAll(), limits.checkMs).unref();

  new Gauge({
    name: "stoker_websockets",
    help: "Open WebSockets of the API",
    labelNames: ["route"] as const,
    registers: [deps.registry],
    collect() {
      for (const { path } of routes) this.set({ route: path }, 0);
      for (const { session } of entries) this.inc({ route: pathsOf.get(session) as string });
    },
  });
  const pathsOf = new WeakMap<SocketSession, string>();

  const pathOf = (url = "/") => url.split("?", 1)[0] as string;
  const routeOf = ({ method, url }: IncomingMessage) =>
    method === "GET" ? routes.find(({ matches }) => matches.test(pathOf(url))) : undefined;

  function checkOrigin({ origin, host }: IncomingHttpHeaders): void {
    // Programs send none.
    if (origin === undefined || origins.has("*") || origins.has(origin)) return;
    if (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()) return;
    throw forbidden("origin_not_allowed", "Pages of this origin may not connect. Add it to STOKER_CORS_ORIGINS.");
  }

  function take(account: string): void {
    const count = counts.get(account) ?? 0;
    if (count >= limits.maxSessionsPerAccount)
      throw rateLimited(
        "too_many_sessions",
        `The account has ${limits.maxSessionsPerAccount} WebSockets open, which is the maximum. Close one.`,
        { retryAfterSeconds: 5 },
      );
    counts.set(account, count + 1);
  }

  function give(account: string): void {
    const left = (counts.get(account) ?? 1) - 1;
    if (left > 0) counts.set(account, left);
    else counts.delete(account);
  }

  /** Throws the errors of `authenticate`, or that the caller may not use inference. */
  async function enter({ address, connection }: Arrival, headers: IncomingHttpHeaders): Promise<[Caller, number]> {
    const since = deps.spine.standing?.now() ?? 0;
    const caller = await authenticate(deps, headers, address, connection);
    const refused = roleRefusal("infer", caller);
    if (refused) throw refused;
    return [caller, since];
  }

  async function arrive(req: IncomingMessage, duplex: Duplex, first: Buffer, arrival: Arrival): Promise<void> {
    const { route, request } = arrival;
    if (isDraining) throw restarting();
    checkOrigin(req.headers);
    const headers = headersWithKey(route, req.headers);
    if (headers) {
      const [caller, since] = await enter(arrival, headers);
      route.check(request);
      if (isDraining) throw restarting();
      // Its close event may have been emitted already.
      if (duplex.destroyed) return;
      take(caller.account);
      let isOpened = false;
      duplex.once("close", () => {
        if (!isOpened) give(caller.account);
      });
      server.handleUpgrade(req, duplex, first, (ws) => {
        isOpened = true;
        welcome(ws, arrival);
        begin(ws, arrival, caller, since);
      });
      return;
    }
    if (!route.keyIn) {
      deps.addresses.take(arrival.address);
      throw new InvalidApiKey();
    }
    // Counts as a request without a credential until the key arrives; the connection counts by address as well.
    deps.addresses.take(arrival.address);
    route.check(request);
    strangers.handleUpgrade(req, duplex, first, (ws) => {
      welcome(ws, arrival);
      awaitKey(ws, arrival);
    });
  }

  function welcome(ws: WebSocket, { meter, startedMs }: Arrival): void {
    connected.add(ws);
    ws.once("close", () => connected.delete(ws));
    // An oversized or malformed frame: ws sends the closing frame itself.
    ws.on("error", () => {});
    meter.ended(101, (performance.now() - startedMs) / 1000);
  }

  function awaitKey(ws: WebSocket, arrival: Arrival): void {
    const { route } = arrival;
    const refuse = (error: unknown) => {
      if (ws.readyState !== ws.OPEN) return;
      ws.send(JSON.stringify(route.errorMessage(error, arrival.requestId)));
      close(ws, policyViolation, refusalOf(error).code);
    };
    const late = setTimeout(() => refuse(new InvalidApiKey()), limits.keyMs);
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
      const entered = key === undefined ? Promise.reject(new InvalidApiKey()) : enter(arrival, bearer(key));
      entered
        .then(([caller, since]) => {
          if (isDraining) throw restarting();
          if (ws.readyState !== ws.OPEN) return;
          take(caller.account);
          ws.off("message", keep);
          const session = begin(ws, arrival, caller, since);
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

  /** The account's slot was taken. */
  function begin(ws: WebSocket, arrival: Arrival, caller: Caller, since: number): SocketSession {
    const { route, meter, request, address, isSecure, requestId } = arrival;
    const { headers } = request;
    const handshake = { caller, since, headers, address, isSecure, meter, dialect: route.dialect };
    const socket = new OpenSocket(ws, deps, handshake);
    const session = route.open(socket, request);
    pathsOf.set(session, route.path);
    const openedMs = performance.now();
    const entry: Entry = { socket, session, ws, lastMessageMs: openedMs, unansweredPings: 0, lastPingMs: openedMs };
    entries.add(entry);
    ws.on("pong", () => {
      entry.unansweredPings = 0;
    });
    ws.on("message", (data, isBinary) => {
      entry.lastMessageMs = performance.now();
      entry.unansweredPings = 0;
      if (isBinary) close(ws, 1003, "send text messages");
      else if (ws.readyState === ws.OPEN) session.message(String(data));
    });
    ws.once("close", (code, reason) => {
      entries.delete(entry);
      give(caller.account);
      session.closed();
      const ms = Math.round(performance.now() - openedMs);
      deps.log.info(
        {
          requestId,
          route: route.path,
          account: caller.account,
          code,
          reason: String(reason),
          turns: socket.turns,
          ms,
        },
        "websocket closed",
      );
      deps.onClosed();
    });
    return session;
  }

  function close(ws: WebSocket, code: number, reason: string): void {
    ws.resume();
    ws.close(code, reason);
  }

  function checkAll(): void {
    const now = performance.now();
    for (const entry of [...entries]) checkOne(entry, now);
  }

  function checkOne(entry: Entry, now: number): void {
    const { socket, session, ws } = entry;
    if (!socket.isOpen) return;
    if (socket.stalledAtMs !== undefined) {
      if (now - socket.stalledAtMs > limits.unreadMs) ws.terminate();
      return;
    }
    socket.check().catch((error: unknown) => {
      if (error instanceof InvalidApiKey) socket.close(policyViolation, error.code);
    });
    if (session.isBusy) entry.lastMessageMs = now;
    if (now - entry.lastMessageMs > session.idleMs) {
      session.idle();
      return;
    }
    if (now - entry.lastPingMs < limits.pingMs) return;
    entry.lastPingMs = now;
    // A paused client's replies are not read.
    if (ws.isPaused) entry.unansweredPings = 0;
    else if (entry.unansweredPings >= 2) ws.terminate();
    else {
      entry.unansweredPings += 1;
      ws.ping();
    }
  }

  /** Logs and counts the refusal. Returns its response. */
  function refused(error: unknown, { route, meter, requestId, isSecure, startedMs }: Arrival) {
    const refusal = refusalOf(error);
    const { status, headers, body } = renderError(refusal, route.dialect, requestId);
    meter.ended(status, (performance.now() - startedMs) / 1000);
    const line = { requestId, route: route.path, status, error: refusal.code, err: refusal.cause };
    if (status >= 500 && refusal.cause !== undefined) deps.log.error(line, "websocket refused");
    else deps.log.info(line, "websocket refused");
    return { status, headers: [...headers, ...apiHeaders(isSecure), "x-request-id", requestId], body };
  }

  function arrivalOf(req: IncomingMessage, route: SocketRoute): Arrival {
    const { address, isSecure } = deps.clientOf(req);
    const url = req.url as string;
    const { groups = {} } = route.matches.exec(pathOf(url)) as RegExpExecArray;
    const at = url.indexOf("?");
    return {
      route,
      meter: meters.get(route) as RouteMeter,
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

  return {
    owns: (request: IncomingMessage): boolean => routeOf(request) !== undefined,
    /** Refuses a request for one of the paths without an upgrade, as a proxy sends it that does not pass upgrades. False: another path. */
    refusePlain(req: IncomingMessage, res: ServerResponse): boolean {
      const route = routeOf(req);
      if (!route) return false;
      const arrival = arrivalOf(req, route);
      let error: unknown = upgradeRequired();
      try {
        deps.addresses.take(arrival.address);
      } catch (limit) {
        error = limit;
      }
      const { status, headers, body } = refused(error, arrival);
      res.writeHead(status, [...headers, "upgrade", "websocket", "content-length", String(Buffer.byteLength(body))]);
      res.end(body);
      res.once("close", deps.onClosed);
      return true;
    },
    upgrade(req: IncomingMessage, duplex: Duplex, first: Buffer): void {
      // node:http removes its own listener: without one a reset by the client would end this process.
      duplex.on("error", () => duplex.destroy());
      const route = routeOf(req);
      if (!route) return void duplex.destroy();
      const arrival = arrivalOf(req, route);
      arrive(req, duplex, first, arrival).catch((error: unknown) => refuseSocket(duplex, refused(error, arrival)));
    },
    /** Refuses new sockets. Running requests may end; then sessions are closed with 1001. */
    drain(): void {
      if (isDraining) return;
      isDraining = true;
      clearInterval(timer);
      for (const { session } of [...entries]) session.leave();
      const known = new Set([...entries].map(({ ws }) => ws));
      for (const ws of connected) if (!known.has(ws)) close(ws, goingAway, "restarting");
      const cut = () => {
        for (const ws of connected) close(ws, goingAway, "restarting");
        setTimeout(() => {
          for (const ws of connected) ws.terminate();
        }, limits.closingMs).unref();
      };
      setTimeout(cut, limits.leaveMs).unref();
    },
    /** Disconnects all clients at once. */
    close(): void {
      this.drain();
      for (const ws of [...connected]) ws.terminate();
    },
  };
}

export type SocketEdge = ReturnType<typeof createSocketEdge>;

const upgradeRequired = () =>
  new ProtocolError(
    426,
    "upgrade_required",
    "This path serves WebSockets only. If you sent an upgrade, a proxy on the way does not pass it.",
  );

/** Chosen instead of a subprotocol that carries a key. */
function chooseProtocol(protocols: Set<string>): string | false {
  return [...protocols].find((one) => !one.includes(".")) ?? false;
}

const bearer = (key: string): IncomingHttpHeaders => ({ authorization: `Bearer ${key}` });
const credentials = ["authorization", "xi-api-key", "x-api-key"] as const;

/** Headers with the credential of this request; undefined: it has none. */
function headersWithKey({ keyProtocol }: SocketRoute, headers: IncomingHttpHeaders): IncomingHttpHeaders | undefined {
  if (credentials.some((name) => headers[name])) return headers;
  if (keyProtocol === undefined) return undefined;
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((one) => one.trim());
  const key = offered.find((one) => one.startsWith(keyProtocol))?.slice(keyProtocol.length);
  if (!key) return undefined;
  // A subprotocol cannot contain the colon of a scoped token's prefix.
  return bearer(/^eyJ[\w-]*\.[\w-]+\.[\w-]+$/.test(key) ? `jwt:${key}` : key);
}
