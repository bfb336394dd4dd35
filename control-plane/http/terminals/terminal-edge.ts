// WebSockets of terminals. Only a ticket opens one, in a subprotocol, so that no cookie can be used by another site's page and no
// secret is in an address. A terminal ends when its credential, account or container does, when nothing passes for too long, after
// eight hours, and when this control plane stops.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import { Gauge, type Registry } from "prom-client";
import { type WebSocket, WebSocketServer } from "ws";
import { randomId } from "../../../proto/ids.ts";
import {
  maxTerminalBytes,
  sizeIn,
  type TerminalSize,
  terminalPath,
  terminalProtocol,
  terminalPurpose,
} from "../../../proto/terminal-tunnel.ts";
import type { Dial } from "../../fleet/dial.ts";
import { openTunnel, TunnelRefused } from "../../fleet/open-tunnel.ts";
import type { ServiceError } from "../../service-error.ts";
import {
  hostHasTooManyTerminals,
  terminalClosed,
  terminalExpired,
  terminalHostUnavailable,
  terminalNoShell,
  terminalNotAllowed,
  terminalTicketInvalid,
  terminalUnchecked,
} from "../../terminals/errors.ts";
import { type OpenedTerminal, renewedMs, type Terminals } from "../../terminals/terminals.ts";
import type { AddressLimits } from "../connections/address-limits.ts";
import type { ClientOf } from "../connections/client-address.ts";
import { apiHeaders } from "../connections/secure-headers.ts";
import type { EdgeMetrics, RouteMeter } from "../core/edge-metrics.ts";
import { refuseSocket } from "../dashboards/forward-upgrade.ts";
import { restarting } from "../errors/errors.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import { closeSocket, goingAway, policyViolation, serverError } from "../sockets/open-socket.ts";
import { checkOrigin, upgradeRequired } from "../sockets/socket-origin.ts";
import { joinTerminal } from "./join-terminal.ts";
import { errorMessage } from "./terminal-messages.ts";

/** Path of the WebSockets. */
const path = "/v1/terminal";
/** Subprotocol that is chosen, and prefix of the one that carries the ticket. */
const protocol = "stoker-terminal";
const ticketPrefix = "ticket.";

export interface TerminalBounds {
  /** Interval of checks whether it may go on; changes are checked at once. */
  readonly renewMs: number;
  /** Maximum time without a successful check: its row expires then. */
  readonly uncheckedMs: number;
  readonly pingMs: number;
  /** Maximum time without a byte in either direction. */
  readonly idleMs: number;
  readonly totalMs: number;
  /** For the closing handshake. */
  readonly closingMs: number;
  /** Maximum time until the shell runs. */
  readonly openMs: number;
}

const usualBounds: TerminalBounds = {
  renewMs: 15_000,
  uncheckedMs: renewedMs,
  pingMs: 30_000,
  idleMs: 30 * 60_000,
  totalMs: 8 * 3_600_000,
  closingMs: 5_000,
  openMs: 30_000,
};

interface TerminalEdgeDeps {
  readonly terminals: Pick<Terminals, "open">;
  readonly dial: Dial;
  readonly clientOf: ClientOf;
  readonly addresses: AddressLimits;
  readonly metrics: Pick<EdgeMetrics, "meter">;
  readonly registry: Registry;
  readonly log: Pick<Logger, "info" | "warn" | "error">;
  /** Called when a connection ended. */
  readonly onClosed: () => void;
  readonly bounds?: Partial<TerminalBounds> | undefined;
}

/** A request that may become a terminal. */
interface Arrival {
  readonly requestId: string;
  readonly address: string;
  readonly isSecure: boolean;
  readonly startedMs: number;
}

export class TerminalEdge {
  readonly #deps: TerminalEdgeDeps;
  readonly #bounds: TerminalBounds;
  readonly #meter: RouteMeter;
  readonly #server: WebSocketServer;
  /** Ends each with an error. */
  readonly #open = new Map<WebSocket, (error: ServiceError) => void>();
  #isDraining = false;

  constructor(deps: TerminalEdgeDeps) {
    this.#deps = deps;
    this.#bounds = { ...usualBounds, ...deps.bounds };
    this.#meter = deps.metrics.meter("GET", path);
    const options = { noServer: true, perMessageDeflate: false, clientTracking: false, maxPayload: maxTerminalBytes };
    const { closingMs: closeTimeout } = this.#bounds;
    this.#server = new WebSocketServer({ ...options, ...{ closeTimeout }, handleProtocols: () => protocol });
    const open = this.#open;
    new Gauge({
      name: "stoker_terminals",
      help: "Open terminals of containers and agent instances",
      registers: [deps.registry],
      collect() {
        this.set(open.size);
      },
    });
  }

  owns({ method, url = "" }: IncomingMessage): boolean {
    return method === "GET" && url.split("?", 1)[0] === path;
  }

  /** Refuses a request for the path without an upgrade. False: another path. */
  refusePlain(req: IncomingMessage, res: ServerResponse): boolean {
    if (!this.owns(req)) return false;
    const { status, headers, body } = this.#refused(upgradeRequired(), this.#arrivalOf(req));
    res.writeHead(status, [...headers, "upgrade", "websocket", "content-length", String(Buffer.byteLength(body))]);
    res.end(body);
    res.once("close", this.#deps.onClosed);
    return true;
  }

  upgrade(req: IncomingMessage, duplex: Duplex, first: Buffer): void {
    // node:http removes its own listener: without one a reset by the client would end this process.
    duplex.on("error", () => duplex.destroy());
    const arrival = this.#arrivalOf(req);
    this.#enter(req, arrival).then(
      (opened) => this.#accept(req, duplex, first, arrival, opened),
      (error: unknown) => refuseSocket(duplex, this.#refused(error, arrival)),
    );
  }

  /** Ends all terminals, and refuses new ones. */
  drain(): void {
    this.#isDraining = true;
    for (const end of [...this.#open.values()]) end(restarting());
  }

  /** Disconnects all clients at once. */
  close(): void {
    this.#isDraining = true;
    for (const ws of [...this.#open.keys()]) ws.terminate();
  }

  #arrivalOf(req: IncomingMessage): Arrival {
    return { ...this.#deps.clientOf(req), requestId: randomId(24), startedMs: performance.now() };
  }

  async #enter(req: IncomingMessage, { address }: Arrival): Promise<OpenedTerminal> {
    if (this.#isDraining) throw restarting();
    // Its own pages only, whatever other origins the API allows.
    checkOrigin(req.headers, new Set());
    this.#deps.addresses.check(address);
    const offered = (req.headers["sec-websocket-protocol"] ?? "").split(",").map((one) => one.trim());
    const ticket = offered.find((one) => one.startsWith(ticketPrefix))?.slice(ticketPrefix.length) ?? "";
    try {
      const opened = await this.#deps.terminals.open(ticket, address);
      this.#deps.addresses.authenticated(req.socket);
      return opened;
    } catch (error) {
      if (refusalOf(error).code === terminalTicketInvalid().code) this.#deps.addresses.take(address);
      throw error;
    }
  }

  #accept(req: IncomingMessage, duplex: Duplex, first: Buffer, arrival: Arrival, opened: OpenedTerminal): void {
    const close = (reason: string) =>
      opened.close(reason).catch((err) => this.#deps.log.error({ err }, "could not record the end of a terminal"));
    if (this.#isDraining) {
      void close("restarting");
      refuseSocket(duplex, this.#refused(restarting(), arrival));
      return;
    }
    const unmade = () => void close("client disconnected");
    if (duplex.destroyed) {
      unmade();
      return;
    }
    duplex.once("close", unmade);
    const size = sizeIn((req.url ?? "").split("?")[1] ?? "");
    this.#server.handleUpgrade(req, duplex, first, (ws) => {
      duplex.off("close", unmade);
      this.#meter.ended(101, (performance.now() - arrival.startedMs) / 1000);
      void this.#run(ws, opened, size, arrival, close);
    });
  }

  async #run(
    ws: WebSocket,
    opened: OpenedTerminal,
    size: TerminalSize,
    { requestId, address }: Arrival,
    close: (reason: string) => Promise<void>,
  ): Promise<void> {
    const { log, dial, onClosed } = this.#deps;
    const openedMs = performance.now();
    let reason = "client disconnected";
    let stop = () => {};
    const end = (error: ServiceError) => {
      reason = error.code;
      // A client that does not complete the closing handshake has no shell in the meantime.
      stop();
      if (ws.readyState === ws.OPEN) ws.send(errorMessage(error));
      closeSocket(ws, closeCodeOf(error), error.code);
    };
    const idle = setTimeout(
      () => end(terminalExpired("Nothing was typed or printed for 30 minutes, so the terminal was closed.")),
      this.#bounds.idleMs,
    ).unref();
    const timers = [idle, ...this.#watch(ws, opened, end)];
    this.#open.set(ws, end);
    // An oversized or malformed frame: ws sends the closing frame itself.
    ws.on("error", () => {});
    ws.once("close", () => {
      for (const timer of timers) clearTimeout(timer);
      this.#open.delete(ws);
      void close(reason);
      const { id: container, account } = opened.subject;
      const ms = Math.round(performance.now() - openedMs);
      log.info({ requestId, route: path, account, container, address, reason, ms }, "terminal closed");
      onClosed();
    });
    try {
      const { instance } = opened.way;
      const { openMs } = this.#bounds;
      const { account } = opened.subject;
      const names = { path: terminalPath(instance, size), protocol: terminalProtocol, purpose: terminalPurpose };
      // What the client sends first waits for the shell.
      ws.pause();
      const tunnel = await openTunnel(opened.way, { ...names, account, openMs }, dial);
      if (ws.readyState !== ws.OPEN) return void tunnel.destroy();
      stop = joinTerminal(ws, tunnel, {
        active: () => void idle.refresh(),
        exited: () => {
          reason = "exited";
          closeSocket(ws, 1000, "exited");
        },
        lost: (cause) => {
          log.warn({ err: cause, requestId, instance }, "terminal lost its host");
          end(terminalHostUnavailable(cause));
        },
        invalid: () => {
          reason = "invalid message";
          closeSocket(ws, policyViolation, "invalid_message");
        },
      });
    } catch (cause) {
      log.warn({ err: cause, requestId }, "terminal could not be opened");
      end(errorOf(cause));
    }
  }

  /** Checks that the terminal may go on and that its client is there. */
  #watch(ws: WebSocket, opened: OpenedTerminal, end: (error: ServiceError) => void): readonly NodeJS.Timeout[] {
    const { renewMs, pingMs, totalMs } = this.#bounds;
    let unanswered = 0;
    ws.on("pong", () => {
      unanswered = 0;
    });
    const ping = setInterval(() => {
      // A paused client's replies are not read.
      if (ws.isPaused) unanswered = 0;
      else if (unanswered >= 2) ws.terminate();
      else if (ws.readyState === ws.OPEN) {
        unanswered += 1;
        ws.ping();
      }
    }, pingMs).unref();
    const check = this.#checkOf(ws, opened, end);
    const renew = setInterval(check, renewMs).unref();
    const stop = opened.onChange(check);
    ws.once("close", stop);
    // It may have changed before.
    check();
    const total = setTimeout(() => end(terminalExpired("A terminal is closed after 8 hours.")), totalMs).unref();
    return [ping, renew, total];
  }

  /** Returns a function that renews the terminal, or ends it if it may not go on. Calls during one become one more. */
  #checkOf(ws: WebSocket, { renew }: OpenedTerminal, end: (error: ServiceError) => void): () => void {
    const tooLate = () => end(terminalUnchecked());
    const unchecked = setTimeout(tooLate, this.#bounds.uncheckedMs).unref();
    ws.once("close", () => clearTimeout(unchecked));
    let isChecking = false;
    let isStale = false;
    const check = (): void => {
      isStale = true;
      if (isChecking) return;
      isChecking = true;
      void (async () => {
        while (isStale && ws.readyState === ws.OPEN) {
          isStale = false;
          // While the database is unavailable a later check decides, until the last one is too long ago.
          const mayGoOn = await renew().catch(() => undefined);
          if (ws.readyState !== ws.OPEN) break;
          if (mayGoOn) unchecked.refresh();
          else if (mayGoOn === false) end(terminalClosed());
        }
        isChecking = false;
      })();
    };
    return check;
  }

  /** Logs and counts the refusal. Returns its response. */
  #refused(error: unknown, { requestId, isSecure, startedMs }: Arrival) {
    const refusal = refusalOf(error);
    const { status, headers, body } = renderError(refusal, "service", requestId);
    this.#meter.ended(status, (performance.now() - startedMs) / 1000);
    const line = { requestId, route: path, status, error: refusal.code, err: refusal.cause };
    if (status >= 500 && refusal.cause !== undefined) this.#deps.log.error(line, "terminal refused");
    else this.#deps.log.info(line, "terminal refused");
    return { status, headers: [...headers, ...apiHeaders(isSecure), "x-request-id", requestId], body };
  }
}

function errorOf(cause: unknown): ServiceError {
  const status = cause instanceof TunnelRefused ? cause.status : undefined;
  if (status === 403) return terminalNotAllowed();
  if (status === 404) return terminalClosed();
  if (status === 429) return hostHasTooManyTerminals();
  return status === 502 ? terminalNoShell() : terminalHostUnavailable(cause);
}

function closeCodeOf({ kind, code }: ServiceError): number {
  if (code === restarting().code) return goingAway;
  return kind === "forbidden" || kind === "request_timeout" ? policyViolation : serverError;
}
