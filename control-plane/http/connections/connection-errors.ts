// Errors before a request reaches a route: rendered like every other error, where Node would close the connection or send a bare
// status. Counted, and logged once a second per kind.
import { type IncomingMessage, maxHeaderSize, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import { Counter, type Registry } from "prom-client";
import { randomId } from "../../../proto/ids.ts";
import type { Refusal } from "../errors/error-body.ts";
import {
  chunkExtensionsTooLarge,
  ExpectationUnknown,
  HeadersTooLarge,
  hostMissing,
  hostRepeated,
  requestTimedOut,
  requestUnreadable,
  tooManyPipelined,
} from "../errors/errors.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import { maxPipelined } from "./connection-limits.ts";
import { apiHeaders, isTls } from "./secure-headers.ts";

/** Delay before closing: a connection closed with unread bytes is reset, and the response lost. */
const lingerMs = 1_000;
/** Minimum interval between two log lines of one kind: a port scan must not fill the disk. */
const everyMs = 1_000;

export function createConnectionErrors(deps: {
  readonly log: Logger;
  readonly registry: Registry;
  /** Unix ms. */
  readonly unixMs: () => number;
}) {
  const refused = new Counter({
    name: "stoker_http_connections_refused_total",
    help: "Connections closed because their bytes were not a request that a route could answer",
    labelNames: ["error"] as const,
    registers: [deps.registry],
  });
  const lastLines = new Map<string | undefined, { atMs: number; unsaid: number }>();

  function note({ code, status, cause }: Refusal, requestId: string): void {
    refused.inc({ error: code ?? "_unknown" });
    const last = lastLines.get(code);
    const now = deps.unixMs();
    if (last && now - last.atMs < everyMs) {
      last.unsaid += 1;
      return;
    }
    lastLines.set(code, { atMs: now, unsaid: 0 });
    // Not the error itself: it contains the received bytes.
    const why = (cause as NodeJS.ErrnoException | undefined)?.code;
    deps.log.info({ requestId, status, error: code, why, unsaid: last?.unsaid || undefined }, "connection refused");
  }

  /** Headers as alternating names and values, including the common ones. */
  function answerTo(error: Error, connection: object | null) {
    const requestId = randomId(24);
    const refusal = refusalOf(error);
    note(refusal, requestId);
    const { status, headers, body } = renderError(refusal, "service", requestId);
    const common = [
      ...apiHeaders(isTls(connection)),
      "x-request-id",
      requestId,
      "x-stoker-request-id",
      requestId,
      "connection",
      "close",
    ];
    return { status, headers: [...headers, ...common, "content-length", String(Buffer.byteLength(body))], body };
  }

  function answer(res: ServerResponse, error: Error): void {
    const { status, headers, body } = answerTo(error, res.socket);
    res.writeHead(status, headers).end(body);
  }

  return {
    /** The bytes of the connection are not a request, or arrived too slowly. */
    unreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
      // The TLS handshake failed.
      if ("encrypted" in socket && !("alpnProtocol" in socket && socket.alpnProtocol !== null)) {
        refused.inc({ error: "tls_handshake" });
        return void socket.destroy();
      }
      // The client is gone, or has its response already.
      if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
      // Within a response, another one would be read as its end.
      if (hasAnswerBegun(socket)) return void socket.destroy();
      const { status, headers, body } = answerTo(refusedAs(error), socket);
      const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`];
      for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`);
      socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
      setTimeout(() => socket.destroy(), lingerMs).unref();
    },
    /** No Host header, which HTTP/1.1 requires. */
    hostless: (_req: IncomingMessage, res: ServerResponse): void => answer(res, hostMissing()),
    /** More than one Host header. */
    severalHosts: (_req: IncomingMessage, res: ServerResponse): void => answer(res, hostRepeated()),
    /** Closes a connection with too many waiting requests. */
    pipelined({ socket }: IncomingMessage): void {
      if (socket.destroyed) return;
      note(refusalOf(tooManyPipelined(maxPipelined)), randomId(24));
      socket.destroy();
    },
    /** A connection was closed before its first byte. */
    dropped: (why: string): void => refused.inc({ error: why }),
    /** An `Expect` other than 100-continue. */
    unknownExpectation: (_req: IncomingMessage, res: ServerResponse): void => answer(res, new ExpectationUnknown()),
  };
}

export type ConnectionErrors = ReturnType<typeof createConnectionErrors>;

function refusedAs(error: NodeJS.ErrnoException): Error {
  switch (error.code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return requestTimedOut(error);
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge(maxHeaderSize, error);
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return chunkExtensionsTooLarge(error);
    default:
      return requestUnreadable(error);
  }
}

/** Node stores the current response of a connection here; its own error handler reads it too. */
function hasAnswerBegun(socket: Duplex): boolean {
  const { _httpMessage: current } = socket as { _httpMessage?: ServerResponse | null };
  return current?.headersSent === true;
}
