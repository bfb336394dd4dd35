// Open WebSockets of the API and their sessions, limited per account. A session ends when its credential does, when its client
// is silent or reads nothing for too long, or when this control plane stops.
import { Gauge, type Registry } from "prom-client";
import type { WebSocket } from "ws";
import type { Caller } from "../../accounts/caller.ts";
import { HeldBytes } from "../../inference/byte-budget.ts";
import { rateLimited } from "../../service-error.ts";
import { closeSocket, goingAway, OpenSocket, type SocketDeps, tryAgainLater } from "./open-socket.ts";
import type { Arrival, SocketRoute, SocketSession } from "./socket-route.ts";

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

interface Entry {
  readonly path: string;
  readonly socket: OpenSocket;
  readonly session: SocketSession;
  readonly ws: WebSocket;
  lastMessageMs: number;
  unansweredPings: number;
  lastPingMs: number;
}

export class OpenSessions {
  isDraining = false;
  readonly #deps: SocketDeps;
  readonly #limits: SocketLimits;
  /** Clients whose key has not arrived have no session. */
  readonly #open = new Map<WebSocket, Entry | undefined>();
  readonly #counts = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;

  constructor(
    deps: SocketDeps & { readonly registry: Registry },
    limits: SocketLimits,
    routes: readonly SocketRoute[],
  ) {
    this.#deps = deps;
    this.#limits = limits;
    this.#timer = setInterval(() => this.#checkAll(), limits.checkMs).unref();
    const entries = () => this.#entries();
    new Gauge({
      name: "stoker_websockets",
      help: "Open WebSockets of the API",
      labelNames: ["route"] as const,
      registers: [deps.registry],
      collect() {
        for (const { path } of routes) this.set({ route: path }, 0);
        for (const { path } of entries()) this.inc({ route: path });
      },
    });
  }

  /** Counts a session of the account until `release`. Throws that the account has too many. */
  hold(account: string): void {
    const count = this.#counts.get(account) ?? 0;
    const max = this.#limits.maxSessionsPerAccount;
    if (count >= max)
      throw rateLimited(
        "too_many_sessions",
        `The account has ${max} WebSockets open, which is the maximum. Close one.`,
        { retryAfterSeconds: 5 },
      );
    this.#counts.set(account, count + 1);
  }

  release(account: string): void {
    const left = (this.#counts.get(account) ?? 1) - 1;
    if (left > 0) this.#counts.set(account, left);
    else this.#counts.delete(account);
  }

  /** Includes a client in `drain` and `close`, before it has a session. */
  add(ws: WebSocket): void {
    this.#open.set(ws, undefined);
    ws.once("close", () => this.#open.delete(ws));
  }

  /** Opens the session of a client that was added; its account is held, and released at the end. */
  begin(ws: WebSocket, arrival: Arrival, caller: Caller, since: number): SocketSession {
    const { route, meter, request, address, isSecure, requestId, connection } = arrival;
    const { path, dialect } = route;
    const { headers } = request;
    const { account } = caller;
    const socket = new OpenSocket(ws, this.#deps, { caller, since, headers, address, isSecure, meter, dialect });
    const session = route.open(socket, request);
    const openedMs = performance.now();
    const entry = { path, socket, session, ws, lastMessageMs: openedMs, unansweredPings: 0, lastPingMs: openedMs };
    this.#open.set(ws, entry);
    const unfinished = new HeldBytes(this.#deps.bodies, account);
    let received = 0;
    // Before the listener of ws, which reports a message during the event that ends it.
    connection.prependListener("data", (chunk: Buffer) => {
      // Pings count as well, so that they cannot hide parts of a message; a message cannot be larger than this.
      received += chunk.length;
      if (received > this.#limits.maxMessageBytes || unfinished.hold(chunk.length)) return;
      socket.close(tryAgainLater, "bodies_full");
    });
    ws.on("pong", () => {
      entry.unansweredPings = 0;
    });
    ws.on("message", (data, isBinary) => {
      entry.lastMessageMs = performance.now();
      entry.unansweredPings = 0;
      received = 0;
      unfinished.letGo();
      if (isBinary) socket.close(1003, "send text messages");
      else if (socket.isOpen) session.message(String(data));
    });
    ws.once("close", (code, reason) => {
      this.release(account);
      unfinished.letGo();
      session.closed();
      const ms = Math.round(performance.now() - openedMs);
      const line = { requestId, route: path, account, code, reason: String(reason), turns: socket.turns, ms };
      this.#deps.log.info(line, "websocket closed");
      this.#deps.onClosed();
    });
    return session;
  }

  /** Requests may end until `leaveMs`; then all sockets are closed with 1001. */
  drain(): void {
    if (this.isDraining) return;
    this.isDraining = true;
    clearInterval(this.#timer);
    for (const [ws, entry] of [...this.#open])
      if (entry) entry.session.leave();
      else closeSocket(ws, goingAway, "restarting");
    const cut = () => {
      for (const ws of this.#open.keys()) closeSocket(ws, goingAway, "restarting");
      setTimeout(() => this.#terminateAll(), this.#limits.closingMs).unref();
    };
    setTimeout(cut, this.#limits.leaveMs).unref();
  }

  /** Disconnects all clients at once. */
  close(): void {
    this.drain();
    this.#terminateAll();
  }

  #terminateAll(): void {
    for (const ws of [...this.#open.keys()]) ws.terminate();
  }

  #entries(): Entry[] {
    return [...this.#open.values()].filter((entry) => entry !== undefined);
  }

  #checkAll(): void {
    const now = performance.now();
    for (const entry of this.#entries()) this.#check(entry, now);
  }

  #check(entry: Entry, now: number): void {
    const { socket, session, ws } = entry;
    if (!socket.isOpen) return;
    if (socket.stalledAtMs !== undefined) {
      if (now - socket.stalledAtMs > this.#limits.unreadMs) ws.terminate();
      return;
    }
    // It closes the socket itself; while the database is unavailable the next check decides.
    socket.check().catch(() => {});
    if (session.isBusy) entry.lastMessageMs = now;
    if (now - entry.lastMessageMs > session.idleMs) {
      session.idle();
      return;
    }
    if (now - entry.lastPingMs < this.#limits.pingMs) return;
    entry.lastPingMs = now;
    // A paused client's replies are not read.
    if (ws.isPaused) entry.unansweredPings = 0;
    else if (entry.unansweredPings >= 2) ws.terminate();
    else {
      entry.unansweredPings += 1;
      ws.ping();
    }
  }
}
