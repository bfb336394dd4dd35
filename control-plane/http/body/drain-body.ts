import type { IncomingMessage } from "node:http";

/** Long enough for a client on a fair line to finish; nobody is read for ever. */
const limitMs = 5_000;

/**
 * Reads and drops the rest of a body that was refused, then calls `done`. A connection closed on unread bytes is reset, and
 * the client may lose the very answer that tells it why.
 */
export function drainBody(request: IncomingMessage, done: () => void): void {
  if (request.readableEnded || request.destroyed) {
    done();
    return;
  }
  const finish = (): void => {
    clearTimeout(timer);
    request.off("end", finish).off("close", finish);
    done();
  };
  const timer = setTimeout(finish, limitMs);
  request.once("end", finish).once("close", finish);
  request.resume();
}
