// Requests with the `Host` of a dashboard. They never reach a route, parser or cookie of the API, and requests of the API never
// reach this. Order: find the dashboard, authorise (isForeign, the visit's cookie), forward (forward.ts).

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { fastifyCookie } from "@fastify/cookie";
import type { Logger } from "pino";
import { randomId } from "../../../proto/ids.ts";
import { type Dashboards, launchPath, type Visit } from "../../agent-instances/dashboards.ts";
import {
  dashboardClosed,
  dashboardForeign,
  dashboardNotReady,
  dashboardUnknown,
} from "../../agent-instances/errors.ts";
import type { Dial } from "../../fleet/dial.ts";
import { drainBody } from "../body/drain-body.ts";
import type { AddressLimits } from "../connections/address-limits.ts";
import { restarting } from "../errors/errors.ts";
import { refusalOf } from "../errors/render-error.ts";
import type { Visitor } from "./dashboard-headers.ts";
import type { DashboardMetrics } from "./dashboard-metrics.ts";
import { forwardRequest } from "./forward.ts";
import { forwardUpgrade, refuseSocket } from "./forward-upgrade.ts";
import { OpenConnections } from "./open-connections.ts";
import { createWays, type Ways } from "./ways.ts";

export interface DashboardBounds {
  /** Maximum requests and WebSockets of one instance at this control plane. */
  readonly maxOpen: number;
  /** Interval of checks for visits that have ended; their connections are closed. */
  readonly recheckMs: number;
  /** Time for browser and dashboard to complete the closing handshake. */
  readonly closingMs: number;
}

const defaultBounds: DashboardBounds = { maxOpen: 128, recheckMs: 15_000, closingMs: 5_000 };

interface Entered {
  readonly label: string;
  readonly cookie: string;
  readonly way: NonNullable<Visit["way"]>;
  readonly visitor: Visitor;
}

interface DashboardEdgeDeps {
  readonly dashboards: Pick<Dashboards, "address" | "enter" | "find">;
  readonly dial: Dial;
  /** Returns the client's address behind trusted proxies. */
  readonly addressOf: (request: IncomingMessage) => string;
  readonly addresses: AddressLimits;
  readonly metrics: DashboardMetrics;
  readonly log: Pick<Logger, "info" | "warn" | "error">;
  /** Called when a response ended and its connection may be idle. */
  readonly onClosed: () => void;
  readonly bounds?: Partial<DashboardBounds> | undefined;
}

export class DashboardEdge {
  readonly #deps: DashboardEdgeDeps;
  readonly #bounds: DashboardBounds;
  /** Bound to this host: no other dashboard can set it. */
  readonly #cookieName: string;
  readonly #ways: Ways;
  readonly #open: OpenConnections;

  constructor(deps: DashboardEdgeDeps) {
    this.#deps = deps;
    this.#bounds = { ...defaultBounds, ...deps.bounds };
    this.#cookieName = deps.dashboards.address.scheme === "https" ? "__Host-stoker-dashboard" : "stoker-dashboard";
    this.#ways = createWays(this.#bounds.maxOpen, deps.dial);
    this.#open = new OpenConnections((label, cookie) => deps.dashboards.find(label, cookie), this.#bounds);
  }

  owns({ headers }: IncomingMessage): boolean {
    return this.#deps.dashboards.address.owns(headers.host);
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    response.once("close", () => {
      this.#deps.metrics.answered(response.headersSent ? response.statusCode : clientGone);
      this.#deps.onClosed();
    });
    this.#serve(request, response).catch((error: unknown) => {
      if (response.headersSent || response.destroyed) return void response.destroy();
      const { status, text, headers } = this.#refusedAs(error);
      const length = String(Buffer.byteLength(text));
      const plain = ["content-type", "text/plain; charset=utf-8", "content-length", length, "connection", "close"];
      drainBody(request, () => {
        response.writeHead(status, [...headers, ...plain]).end(text);
      });
    });
  }

  upgrade(request: IncomingMessage, socket: Duplex, first: Buffer): void {
    // node:http removes its own listener: without one a reset by the client would end this process.
    socket.on("error", () => socket.destroy());
    this.#serveUpgrade(request, socket, first).catch((error: unknown) => {
      const refused = this.#refusedAs(error);
      this.#deps.metrics.answered(refused.status);
      refuseSocket(socket, refused);
    });
  }

  /** Refuses new requests with 503. Running responses finish; WebSockets receive a closing frame. */
  drain(): void {
    this.#open.drain();
  }

  /** Closes open connections at once. */
  async close(): Promise<void> {
    this.#open.close();
    await this.#ways.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Do not use up a launch token for a page that cannot be served.
    if (this.#open.isDraining) throw restarting();
    const [path, query = ""] = (request.url ?? "").split("?", 2) as [string, string?];
    if (path === launchPath) return this.#launch(request, response, query);
    const entered = await this.#enter(request, false);
    const over = this.#open.hold({ ...entered, cut: () => response.destroy(), leave: () => {} });
    response.once("close", over);
    if (response.destroyed) return over();
    await forwardRequest(this.#ways.to(entered.way), request, response, entered.visitor, this.#deps.metrics);
  }

  async #serveUpgrade(request: IncomingMessage, socket: Duplex, first: Buffer): Promise<void> {
    const { metrics } = this.#deps;
    const entered = await this.#enter(request, true);
    const draining = new AbortController();
    const leave = () => draining.abort(restarting());
    const over = this.#open.hold({ ...entered, cut: () => socket.destroy(), leave });
    socket.once("close", over);
    if (socket.destroyed) return over();
    const browser = { socket, first, leaving: draining.signal, closingMs: this.#bounds.closingMs };
    metrics.answered(await forwardUpgrade(this.#ways.to(entered.way), request, browser, entered.visitor, metrics));
  }

  #labelOf(request: IncomingMessage): string {
    const label = this.#deps.dashboards.address.labelIn(request.headers.host);
    if (label === undefined) throw dashboardUnknown();
    return label;
  }

  async #enter(request: IncomingMessage, isUpgrade: boolean): Promise<Entered> {
    const { dashboards, addresses } = this.#deps;
    const label = this.#labelOf(request);
    if (isForeign(request.method, request.headers, isUpgrade)) throw dashboardForeign();
    const cookie = fastifyCookie.parse(request.headers.cookie ?? "")[this.#cookieName] ?? "";
    const ip = this.#deps.addressOf(request);
    addresses.check(ip);
    const visit = await dashboards.find(label, cookie);
    if (!visit) {
      addresses.take(ip);
      throw dashboardClosed(
        "This dashboard is not open in this browser, or the visit has expired. Open it from the console or with `stoker agent open`.",
      );
    }
    addresses.authenticated(request.socket);
    if (!visit.way) throw dashboardNotReady(visit.status);
    if (!request.url?.startsWith("/")) throw dashboardUnknown();
    const host = request.headers.host ?? "";
    const visitor = { host, ip, scheme: dashboards.address.scheme, cookie: this.#cookieName };
    return { label, cookie, way: visit.way, visitor };
  }

  /** Exchanges the launch token in `query` for the cookie of a visit. */
  async #launch(request: IncomingMessage, response: ServerResponse, query: string): Promise<void> {
    const { dashboards, addresses, log } = this.#deps;
    const label = this.#labelOf(request);
    if (request.method !== "GET" || isForeign("GET", request.headers, false)) throw dashboardForeign();
    addresses.take(this.#deps.addressOf(request));
    const entered = await dashboards.enter(label, new URLSearchParams(query).get("token") ?? "");
    if (!entered)
      throw dashboardClosed(
        "This address was used already or is older than a minute. Open the dashboard from the console or with `stoker agent open`.",
      );
    const text = fastifyCookie.serialize(this.#cookieName, entered.cookie, {
      httpOnly: true,
      sameSite: "lax",
      path: "/",
      secure: dashboards.address.scheme === "https",
      maxAge: entered.maxAgeSeconds,
    });
    response.writeHead(303, [...common, "location", "/", "set-cookie", text, "content-length", "0"]).end();
    log.info({ dashboard: label }, "dashboard opened");
  }

  /** Returns status, text and headers of the response; header names and values in turn. */
  #refusedAs(error: unknown) {
    const { status, message, code, cause, retryAfterSeconds } = refusalOf(error);
    const id = randomId(24);
    if (status >= 500) this.#deps.log.warn({ err: cause ?? error, code, requestId: id }, "dashboard request failed");
    const again =
      retryAfterSeconds === undefined ? [] : ["retry-after", String(Math.max(1, Math.ceil(retryAfterSeconds)))];
    // The person who sees the page needs the id for the operator.
    const text = status === 500 ? `${message} It is ${id}.\n` : `${message}\n`;
    return { status, text, headers: [...common, "x-request-id", id, ...again] };
  }
}

/** Status of requests whose client disconnected, as in the API's metrics. */
const clientGone = 499;

const common = [
  ...["cache-control", "no-store", "referrer-policy", "no-referrer", "x-content-type-options", "nosniff"],
] as const;

// Dashboards share a domain, so browsers treat them as one site, and SameSite does not protect the cookie of one from pages of
// another. This checks which page sent a request. Pure.
const harmless: ReadonlySet<string | undefined> = new Set(["GET", "HEAD"]);

/** Returns true when a page of another origin sent the request, unless a person followed a link. */
export function isForeign(method: string | undefined, headers: IncomingHttpHeaders, isUpgrade: boolean): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) {
    if (site === "same-origin" || site === "none") return false;
    const isVisit = headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
    return isUpgrade || !isVisit || !harmless.has(method);
  }
  // Older browsers send Origin with writes and WebSockets.
  const { origin } = headers;
  if (origin === undefined || (harmless.has(method) && !isUpgrade)) return false;
  return !URL.canParse(origin) || new URL(origin).host !== headers.host?.toLowerCase();
}
