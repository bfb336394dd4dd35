import type { IncomingMessage } from "node:http";

/** Enough for a client on a fast connection to finish. */
const limitMs = 5_000;

/**
 * Reads and drops the rest of a refused body, then calls `done`. Closing a connection with unread bytes resets it, and the
 * client may lose the error response.
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
