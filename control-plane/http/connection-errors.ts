// What is wrong before there is a request that a route could answer: told in the shape of every other error, where Node would
// close without a word or with a bare status. Nothing here stands on a request's way.
import { type IncomingMessage, maxHeaderSize, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { randomId } from "../../proto/ids.ts";
import {
  ChunkExtensionsTooLarge,
  ExpectationUnknown,
  HeadersTooLarge,
  HostMissing,
  RequestTimedOut,
  RequestUnreadable,
} from "./errors.ts";
import { refusalOf, renderError } from "./render-error.ts";

/** For what was sent and not read: closed at once, the connection would be reset and the answer lost with it. */
const lingerMs = 1_000;

/** Of a connection whose bytes are no request, or came too slowly. */
export function answerConnectionError(error: NodeJS.ErrnoException, socket: Duplex): void {
  // Nobody is there any more, or this was answered already.
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  // In the middle of an answer another one would be taken for its end.
  if (hasAnswerBegun(socket)) return void socket.destroy();
  const { status, headers, body } = answerTo(refusedAs(error));
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`];
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`);
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
  setTimeout(() => socket.destroy(), lingerMs).unref();
}

/** HTTP/1.1 asks for the header, and for this status. */
export const answerHostless = (_req: IncomingMessage, res: ServerResponse): void => answer(res, new HostMissing());

/** An `Expect` other than 100-continue. */
export const answerUnknownExpectation = (_req: IncomingMessage, res: ServerResponse): void =>
  answer(res, new ExpectationUnknown());

function answer(res: ServerResponse, error: Error): void {
  const { status, headers, body } = answerTo(error);
  res.writeHead(status, headers).end(body);
}

/** Headers with those of every answer: names and values, in turn. */
function answerTo(error: Error) {
  const requestId = randomId(24);
  const { status, headers, body } = renderError(refusalOf(error), "service", requestId);
  const common = ["x-request-id", requestId, "x-stoker-request-id", requestId, "connection", "close"];
  return { status, headers: [...headers, ...common, "content-length", String(Buffer.byteLength(body))], body };
}

function refusedAs(error: NodeJS.ErrnoException): Error {
  switch (error.code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new RequestTimedOut(error);
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge(maxHeaderSize, error);
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new ChunkExtensionsTooLarge(error);
    default:
      return new RequestUnreadable(error);
  }
}

/** Node keeps the answer that a connection is in there, and its own way of telling such errors looks at it too. */
function hasAnswerBegun(socket: Duplex): boolean {
  const { _httpMessage: current } = socket as { _httpMessage?: ServerResponse | null };
  return current?.headersSent === true;
}
