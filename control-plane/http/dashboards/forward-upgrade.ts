// Forwards one WebSocket between a browser and a dashboard, until either side disconnects.

import { type IncomingMessage, STATUS_CODES } from "node:http";
import { type Duplex, Transform, type TransformCallback } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Pool } from "undici";
import { askUpgrade, type Upgraded } from "./ask-upgrade.ts";
import { toBrowser, toDashboard, type Visitor } from "./dashboard-headers.ts";
import type { DashboardMetrics } from "./dashboard-metrics.ts";
import { failure } from "./forward.ts";
import { WebSocketFrames } from "./web-socket-frames.ts";

/** Maximum time without data in either direction. */
const idleMs = 10 * 60_000;

interface Browser {
  readonly socket: Duplex;
  /** Bytes received after the request. */
  readonly first: Buffer;
  /** Aborts when this control plane shuts down; its reason is the response. */
  readonly leaving: AbortSignal;
  /** Time for the closing handshake after that. */
  readonly closingMs: number;
}

/**
 * Returns the dashboard's status, 101 once bytes are forwarded; later errors close the connection. Throws the error of `failure`
 * or the reason of `leaving` when there was no response; then nothing was sent.
 */
export async function forwardUpgrade(
  pool: Pool,
  request: IncomingMessage,
  browser: Browser,
  visitor: Visitor,
  metrics: Pick<DashboardMetrics, "webSocket" | "passed">,
): Promise<number> {
  const { socket, leaving } = browser;
  const gone = new AbortController();
  // A client that closes cleanly ends its side and waits for ours.
  for (const left of ["end", "close"]) socket.once(left, () => gone.abort());
  if (socket.readableEnded) gone.abort();
  const asked = {
    path: request.url as string,
    headers: toDashboard(request.rawHeaders, visitor),
    signal: AbortSignal.any([gone.signal, leaving]),
  };
  const answer = await askUpgrade(pool, asked).catch((error: unknown) => {
    throw leaving.aborted ? leaving.reason : failure(error);
  });
  const headers = toBrowser(answer.headers, visitor.cookie);
  if (answer.kind === "refused") {
    await passRefusal(browser, { ...answer, headers }, metrics);
    return answer.status;
  }
  join(browser, { ...answer, headers }, metrics);
  return 101;
}

async function passRefusal(
  browser: Browser,
  { status, headers, body }: Extract<Upgraded, { kind: "refused" }>,
  metrics: Pick<DashboardMetrics, "passed">,
): Promise<void> {
  const { socket } = browser;
  socket.write(headText(status, ["connection", "close", ...headers]), "latin1");
  body.on("data", (part: Buffer) => metrics.passed("out", part.length));
  endWhenSilent(socket, body);
  whenLeaving(browser);
  // The end of the connection shows that a response is incomplete.
  await pipeline(body, socket).catch(() => {});
  socket.destroy();
}

function join(
  browser: Browser,
  { headers, socket: inner }: Extract<Upgraded, { kind: "upgraded" }>,
  metrics: Pick<DashboardMetrics, "webSocket" | "passed">,
): void {
  const { socket, first } = browser;
  const outward = new GoingAway();
  inner.on("error", () => inner.destroy());
  outward.on("error", () => socket.destroy());
  // The last data is still sent.
  inner.once("close", () => outward.end());
  outward.once("end", () => socket.end(() => socket.destroy()));
  socket.once("close", () => {
    inner.destroy();
    outward.destroy();
  });
  if (socket.destroyed) return void inner.destroy();
  socket.once("close", metrics.webSocket());
  socket.write(headText(101, ["connection", "Upgrade", "upgrade", "websocket", ...headers]), "latin1");
  if (first.length > 0) inner.write(first);
  endWhenSilent(socket, inner);
  socket.on("data", (part: Buffer) => metrics.passed("in", part.length));
  inner.on("data", (part: Buffer) => metrics.passed("out", part.length));
  inner.pipe(outward).pipe(socket);
  socket.pipe(inner);
  whenLeaving(browser, () => outward.leave());
}

/** The server's own limits do not apply to upgraded connections: close them when they do not end in time. */
function whenLeaving({ socket, leaving, closingMs }: Browser, sendClosing: () => void = () => {}): void {
  const leave = () => {
    sendClosing();
    const cut = setTimeout(() => socket.destroy(), closingMs);
    socket.once("close", () => clearTimeout(cut));
  };
  if (leaving.aborted) return void leave();
  leaving.addEventListener("abort", leave, { once: true });
  socket.once("close", () => leaving.removeEventListener("abort", leave));
}

/** Refuses an upgrade. `headers`: names and values in turn. */
export function refuseSocket(
  socket: Duplex,
  {
    status,
    headers,
    body = "",
  }: { readonly status: number; readonly headers: readonly string[]; readonly body?: string },
): void {
  if (!socket.writable) return void socket.destroy();
  const length = String(Buffer.byteLength(body));
  const head = headText(status, ["connection", "close", "content-length", length, ...headers]);
  socket.end(head + body, () => socket.destroy());
}

/** Returns the head of a response on a socket. `headers`: names and values in turn. */
function headText(status: number, headers: readonly string[]): string {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`];
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function endWhenSilent(socket: Duplex, inner: { on(event: "data", listener: () => void): unknown }): void {
  const timer = setTimeout(() => socket.destroy(), idleMs);
  timer.unref();
  const moved = () => void timer.refresh();
  socket.on("data", moved);
  inner.on("data", moved);
  socket.once("close", () => clearTimeout(timer));
}

// Stream from a dashboard's WebSocket to the browser. When this control plane stops, it sends a closing frame (1001) between two
// frames: the page reconnects at once and reaches another replica. It does the same when the dashboard's connection ends without
// a closing frame, because its program died or its host's agent stops.
/** A server's closing frame with the status 1001. */
const goingAway = Buffer.from([0x88, 0x02, 0x03, 0xe9]);

export class GoingAway extends Transform {
  readonly #frames = new WebSocketFrames();
  #state: "passes" | "leaves" | "left" = "passes";

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#state === "passes") {
      this.#frames.take(chunk);
      this.push(chunk);
    } else if (this.#state === "leaves") {
      const rest = this.#frames.takeRest(chunk);
      if (rest > 0) this.push(chunk.subarray(0, rest));
      this.#leaveIfBetween();
    }
    // Nothing may follow a closing frame, so later data is dropped. It is still read, because the dashboard's reply follows it.
    done();
  }

  override _flush(done: TransformCallback): void {
    if (this.#state === "passes") this.#leaveIfBetween();
    done();
  }

  /** Ends the stream after the current frame. */
  leave(): void {
    if (this.#state !== "passes" || this.writableEnded || this.destroyed) return;
    this.#state = "leaves";
    this.#leaveIfBetween();
  }

  #leaveIfBetween(): void {
    if (!this.#frames.isBetween) return;
    this.#state = "left";
    // The dashboard may have sent a closing frame already.
    if (!this.#frames.hasClosed) this.push(goingAway);
  }
}
