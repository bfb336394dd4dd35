// Sends one call to one receiver: to a checked address, with the original Host header, bounded in time and bytes.
import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type buildConnector, Client, type Dispatcher } from "undici";
import { WebhookRefused } from "./errors.ts";
import { outcomeOf, readRetryAfter } from "./schedule.ts";
import type { Outcome } from "./store.ts";
import type { Destination, Targets } from "./target.ts";

export interface SendLimits {
  readonly connectMs: number;
  readonly totalMs: number;
}

export const sendLimits: SendLimits = { connectMs: 5_000, totalMs: 20_000 };

/** Bytes of the response that are read, and that are shown. */
const maxReadBytes = 64 * 1024;
const maxShownBytes = 1024;

export interface Sent {
  readonly outcome: Outcome;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  /** The receiver's response, or why there is none. */
  readonly answer: string;
  /** True when the address accepted a connection; undefined: no call was made because the name did not resolve. */
  readonly isAlive: boolean | undefined;
}

export interface SendDeps {
  readonly targets: Targets;
  readonly limits?: SendLimits;
  /** Additional certificate authorities, in PEM. */
  readonly ca?: string;
  /** Ends the call. */
  readonly signal?: AbortSignal;
}

/** Never rejects because of the receiver or the network. */
export async function send(
  deps: SendDeps,
  url: string,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): Promise<Sent> {
  const limits = deps.limits ?? sendLimits;
  const timeout = AbortSignal.timeout(limits.totalMs);
  const signal = deps.signal ? AbortSignal.any([timeout, deps.signal]) : timeout;
  let client: Client | undefined;
  let destination: Destination | undefined;
  try {
    destination = await bounded(deps.targets.locate(url), signal);
    client = new Client(destination.url.origin, {
      connect: connectorTo(deps, destination, limits.connectMs),
      headersTimeout: limits.totalMs,
      bodyTimeout: limits.totalMs,
    });
    const path = destination.url.pathname + destination.url.search;
    const answer = await client.request({ method: "POST", path, headers: { ...headers }, body, signal });
    return { ...(await read(answer)) };
  } catch (error) {
    if (error instanceof WebhookRefused) return failed("blocked", error.message, undefined);
    const isAlive = destination && false;
    if (deps.signal?.aborted) return failed("unreachable", "the sender stopped", isAlive);
    if (signal.aborted || isTimeout(error))
      return failed("timeout", `no response within ${limits.totalMs / 1000} s`, isAlive);
    return failed("unreachable", reasonOf(error), isAlive);
  } finally {
    client?.destroy().catch(() => {});
  }
}

const failed = (outcome: Outcome, answer: string, isAlive: boolean | undefined): Sent => ({
  outcome,
  isAlive,
  status: undefined,
  retryAfterMs: undefined,
  answer,
});

async function read({ statusCode, headers, body }: Dispatcher.ResponseData): Promise<Sent> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of body) {
    parts.push(part as Buffer);
    bytes += (part as Buffer).length;
    if (bytes >= maxReadBytes) break;
  }
  const retryAfter = headers["retry-after"];
  return {
    outcome: outcomeOf(statusCode),
    isAlive: true,
    status: statusCode,
    retryAfterMs: readRetryAfter(typeof retryAfter === "string" ? retryAfter : undefined, Date.now()),
    // PostgreSQL text columns cannot store NUL.
    answer: Buffer.concat(parts).subarray(0, maxShownBytes).toString().replaceAll("\0", ""),
  };
}

/** Checks the address again on the open socket, because that is where the bytes go. */
export function connectorTo(
  deps: { readonly targets: Pick<Targets, "mayConnectTo">; readonly ca?: string },
  { url, address }: Destination,
  timeoutMs: number,
): buildConnector.connector {
  const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  return (_options, done) => {
    const socket = connect({ host: address, port });
    let tls: Socket | undefined;
    let isOver = false;
    const timer = setTimeout(() => end(timeoutError()), timeoutMs);
    const end = (error: Error | undefined, open?: Socket): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      if (open) {
        done(null, open as never);
        return;
      }
      tls?.destroy();
      socket.destroy();
      done(error as Error, null);
    };
    socket.on("error", end);
    socket.on("close", () => end(new Error("connection closed")));
    socket.once("connect", () => {
      if (!deps.targets.mayConnectTo(socket.remoteAddress ?? "")) {
        end(new WebhookRefused("its host is not a public address"));
        return;
      }
      if (url.protocol === "http:") {
        end(undefined, socket);
        return;
      }
      const secure = connectTls({
        socket,
        host: hostname,
        ...(isIP(hostname) ? {} : { servername: hostname }),
        ALPNProtocols: ["http/1.1"],
        ...(deps.ca === undefined ? {} : { ca: deps.ca }),
      });
      tls = secure;
      secure.on("error", end);
      secure.once("secureConnect", () => end(undefined, secure));
    });
  };
}

const timeoutError = () => Object.assign(new Error("connection timed out"), { code: "ETIMEDOUT" });

/** Rejects when `signal` aborts, whatever the work does. */
export async function bounded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

const codeOf = (error: unknown) =>
  typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
const isTimeout = (error: unknown) => /TIMEDOUT|_TIMEOUT/.test(codeOf(error));

/** The code identifies the cause and contains nothing of the URL. */
const reasonOf = (error: unknown): string => `could not reach the receiver: ${codeOf(error) || "connection failed"}`;
