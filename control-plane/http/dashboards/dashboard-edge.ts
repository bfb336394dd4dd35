// Requests with the `Host` of a dashboard. They never reach a route, parser or cookie of the API, and requests of the API never
// reach this. Order: find the dashboard, authorise (isForeign, the visit's cookie), forward (forward.ts).

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { fastifyCookie } from "@fastify/cookie";
import type { Logger } from "pino";
import { randomId } from "../../../proto/ids.ts";
import { type Dashboards, launchPath, type Visit } from "../../agent-instances/dashboards.ts";
import {
  DashboardBusy,
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
import { createWays } from "./ways.ts";

export interface DashboardBounds {
  /** Maximum requests and WebSockets of one instance at this control plane. */
  readonly maxOpen: number;
  /** Interval of checks for visits that have ended; their connections are closed. */
  readonly recheckMs: number;
  /** Time for browser and dashboard to complete the closing handshake. */
  readonly closingMs: number;
}

const defaultBounds: DashboardBounds = { maxOpen: 128, recheckMs: 15_000, closingMs: 5_000 };

interface Open {
  readonly label: string;
  readonly cookie: string;
  readonly cut: () => void;
  readonly leave: () => void;
}

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

export function createDashboardEdge(deps: DashboardEdgeDeps) {
  const { dashboards, metrics, log, bounds } = deps;
  const { maxOpen, recheckMs, closingMs } = { ...defaultBounds, ...bounds };
  const { address } = dashboards;
  // Bound to this host: no other dashboard can set it.
  const cookieName = address.scheme === "https" ? "__Host-stoker-dashboard" : "stoker-dashboard";
  const ways = createWays(maxOpen, deps.dial);
  const open = new Set<Open>();
  const counts = new Map<string, number>();
  let recheck = setTimeout(closeEndedVisits, recheckMs).unref();
  let isDraining = false;
  let isClosed = false;

  function labelOf(request: IncomingMessage): string {
    const label = address.labelIn(request.headers.host);
    if (label === undefined) throw dashboardUnknown();
    return label;
  }

  async function enter(request: IncomingMessage, isUpgrade: boolean): Promise<Entered> {
    const label = labelOf(request);
    if (isForeign(request.method, request.headers, isUpgrade)) throw dashboardForeign();
    const cookie = fastifyCookie.parse(request.headers.cookie ?? "")[cookieName] ?? "";
    const ip = deps.addressOf(request);
    deps.addresses.check(ip);
    const visit = await dashboards.find(label, cookie);
    if (!visit) {
      deps.addresses.take(ip);
      throw dashboardClosed(
        "This dashboard is not open in this browser, or the visit has expired. Open it from the console or with `stoker agent open`.",
      );
    }
    deps.addresses.authenticated(request.socket);
    if (!visit.way) throw dashboardNotReady(visit.status);
    if (!request.url?.startsWith("/")) throw dashboardUnknown();
    const host = request.headers.host ?? "";
    return { label, cookie, way: visit.way, visitor: { host, ip, scheme: address.scheme, cookie: cookieName } };
  }

  /** Counts a connection as open until the returned function is called. Throws DashboardBusy, restarting. */
  function hold({ label, cookie }: Entered, { cut, leave = () => {} }: Pick<Open, "cut"> & Partial<Open>): () => void {
    if (isDraining) throw restarting();
    const count = counts.get(label) ?? 0;
    if (count >= maxOpen) throw new DashboardBusy();
    counts.set(label, count + 1);
    const one = { label, cookie, cut, leave };
    open.add(one);
    return () => {
      if (!open.delete(one)) return;
      const left = (counts.get(label) ?? 1) - 1;
      if (left > 0) counts.set(label, left);
      else counts.delete(label);
    };
  }

  async function closeEndedVisits(): Promise<void> {
    const visits = new Map([...open].map((one) => [`${one.label} ${one.cookie}`, one]));
    for (const { label, cookie } of visits.values()) {
      // A failed check closes nothing.
      const visit = await dashboards.find(label, cookie).catch(() => "unknown" as const);
      if (visit !== undefined) continue;
      for (const one of [...open]) if (one.label === label && one.cookie === cookie) one.cut();
    }
    if (!isClosed) recheck = setTimeout(closeEndedVisits, recheckMs).unref();
  }

  async function launch(request: IncomingMessage, response: ServerResponse, query: string): Promise<void> {
    const label = labelOf(request);
    if (request.method !== "GET" || isForeign("GET", request.headers, false)) throw dashboardForeign();
    deps.addresses.take(deps.addressOf(request));
    const entered = await dashboards.enter(label, new URLSearchParams(query).get("token") ?? "");
    if (!entered)
      throw dashboardClosed(
        "This address was used already or is older than a minute. Open the dashboard from the console or with `stoker agent open`.",
      );
    const { cookie, maxAgeSeconds: maxAge } = entered;
    const secure = address.scheme === "https";
    const text = fastifyCookie.serialize(cookieName, cookie, {
      httpOnly: true,
      sameSite: "lax",
      path: "/",
      secure,
      maxAge,
    });
    response.writeHead(303, [...common, "location", "/", "set-cookie", text, "content-length", "0"]).end();
    log.info({ dashboard: label }, "dashboard opened");
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Do not use up a launch token for a page that cannot be served.
    if (isDraining) throw restarting();
    const [path, query = ""] = (request.url ?? "").split("?", 2) as [string, string?];
    if (path === launchPath) return launch(request, response, query);
    const entered = await enter(request, false);
    const over = hold(entered, { cut: () => response.destroy() });
    response.once("close", over);
    if (response.destroyed) return over();
    await forwardRequest(ways.to(entered.way), request, response, entered.visitor, metrics);
  }

  async function serveUpgrade(request: IncomingMessage, socket: Duplex, first: Buffer): Promise<void> {
    const entered = await enter(request, true);
    const draining = new AbortController();
    const leave = () => draining.abort(restarting());
    const over = hold(entered, { cut: () => socket.destroy(), leave });
    socket.once("close", over);
    if (socket.destroyed) return over();
    const browser = { socket, first, leaving: draining.signal, closingMs };
    metrics.answered(await forwardUpgrade(ways.to(entered.way), request, browser, entered.visitor, metrics));
  }

  /** Returns status, text and headers of the response; header names and values in turn. */
  function refusedAs(error: unknown) {
    const { status, message, code, cause, retryAfterSeconds } = refusalOf(error);
    const id = randomId(24);
    if (status >= 500) log.warn({ err: cause ?? error, code, requestId: id }, "dashboard request failed");
    const again =
      retryAfterSeconds === undefined ? [] : ["retry-after", String(Math.max(1, Math.ceil(retryAfterSeconds)))];
    // The person who sees the page needs the id for the operator.
    const text = status === 500 ? `${message} It is ${id}.\n` : `${message}\n`;
    return { status, text, headers: [...common, "x-request-id", id, ...again] };
  }

  return {
    owns: ({ headers }: IncomingMessage): boolean => address.owns(headers.host),
    take(request: IncomingMessage, response: ServerResponse): void {
      response.once("close", () => {
        metrics.answered(response.headersSent ? response.statusCode : clientGone);
        deps.onClosed();
      });
      serve(request, response).catch((error: unknown) => {
        if (response.headersSent || response.destroyed) return void response.destroy();
        const { status, text, headers } = refusedAs(error);
        const length = String(Buffer.byteLength(text));
        const plain = ["content-type", "text/plain; charset=utf-8", "content-length", length, "connection", "close"];
        drainBody(request, () => {
          response.writeHead(status, [...headers, ...plain]).end(text);
        });
      });
    },
    upgrade(request: IncomingMessage, socket: Duplex, first: Buffer): void {
      // node:http removes its own listener: without one a reset by the client would end this process.
      socket.on("error", () => socket.destroy());
      serveUpgrade(request, socket, first).catch((error: unknown) => {
        const refused = refusedAs(error);
        metrics.answered(refused.status);
        refuseSocket(socket, refused);
      });
    },
    /** Refuses new requests with 503. Running responses finish; WebSockets receive a closing frame. */
    drain(): void {
      isDraining = true;
      for (const { leave } of [...open]) leave();
    },
    /** Closes open connections at once. */
    async close(): Promise<void> {
      isDraining = true;
      isClosed = true;
      clearTimeout(recheck);
      for (const { cut } of [...open]) cut();
      await ways.close();
    },
  };
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
