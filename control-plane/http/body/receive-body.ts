// Receives a body into memory, within its own limit and the budget of all bodies. Only received bytes count against the budget:
// a client that announces a body and sends nothing must not exclude others. A body that does not fit is refused at once; one
// that stalls is dropped.
import type { IncomingMessage } from "node:http";
import type { RequestState } from "../core/request-state.ts";
import { bodiesFull, bodyStalled, bodyTooLarge } from "../errors/errors.ts";
import { Silence, stallMs } from "./silence.ts";
import { judgeAhead, largeBytes } from "./unfit-value.ts";

/** Runs `next` after other sockets were read: that happens between two immediates. */
const afterOthers = (next: () => void): void => void setImmediate(() => setImmediate(next));

/**
 * Calls `done` once, unless the client disconnects before the end. Errors: ServiceError, bodiesFull, bodyStalled, or the error of
 * the connection.
 */
export function receiveBody(
  req: IncomingMessage,
  state: Pick<RequestState, "hasCapacityFor" | "holdBody" | "waits">,
  limitBytes: number,
  done: (error: Error | null, bytes?: Buffer) => void,
): void {
  const announced = Number(req.headers["content-length"] ?? 0);
  if (announced > limitBytes) return void done(bodyTooLarge(limitBytes));
  if (announced > 0 && !state.hasCapacityFor(announced)) return void done(bodiesFull());
  let parts: Buffer[] = [];
  /** A large body of known length, copied as it arrives: joining 48 MB at the end would delay others by 30 ms. */
  let joined: Buffer | undefined;
  let bytes = 0;
  const stop = (error: Error): void => {
    silence.end();
    req.off("data", take).off("end", end).off("error", stop);
    // Read and drop the rest.
    req.on("error", () => {}).resume();
    done(error);
  };
  const take = (part: Buffer): void => {
    // Allocate after a quarter has arrived: an announced length alone costs nothing.
    if (!joined && announced >= largeBytes && bytes >= largeBytes / 4) {
      joined = Buffer.allocUnsafeSlow(announced);
      Buffer.concat(parts).copy(joined);
      parts = [];
    }
    if (joined) part.copy(joined, bytes);
    else parts.push(part);
    bytes += part.length;
    if (bytes > limitBytes) stop(bodyTooLarge(limitBytes));
    else if (!state.holdBody(part.length)) stop(bodiesFull());
    // Most bodies arrive in one piece.
    else if (bytes !== announced) silence.broken();
  };
  const end = (): void => {
    silence.end();
    const whole = joined ?? (parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    if (bytes < largeBytes) return void done(null, whole);
    // Scanning and parsing take a while each: serve others in between.
    afterOthers(() => {
      judgeAhead(whole);
      afterOthers(() => done(null, whole));
    });
  };
  // From the start: a body that never begins also holds its connection.
  const silence = new Silence(state.waits, () => {
    if (req.destroyed) silence.end();
    else stop(bodyStalled(stallMs));
  });
  req.on("data", take).on("end", end).on("error", stop);
}
