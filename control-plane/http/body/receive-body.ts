// A body as it comes, in memory: bounded by itself, and beside those of all other requests. What has come is counted, as it
// comes: what is only announced holds nothing, or whoever announces and never sends would shut out everybody. It is refused
// at once where there is no room for it now, and let go where nothing more of it comes.
import type { IncomingMessage } from "node:http";
import type { RequestState } from "../core/request-state.ts";
import { bodiesFull, bodyStalled, bodyTooLarge } from "../errors/errors.ts";
import { Silence, stallMs } from "./silence.ts";
import { judgeAhead, largeBytes } from "./unfit-value.ts";

/** Sockets are read between the first and the second of two immediates. */
const afterOthers = (next: () => void): void => void setImmediate(() => setImmediate(next));

/**
 * Calls back once, unless the client goes before the end. An error: ServiceError, bodiesFull, bodyStalled, or what broke the
 * connection.
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
  /** A large body whose length is known, copied as it comes: to join 48 MB at the end would delay others by 30 ms. */
  let joined: Buffer | undefined;
  let bytes = 0;
  const stop = (error: Error): void => {
    silence.end();
    req.off("data", take).off("end", end).off("error", stop);
    // The rest is read and dropped.
    req.on("error", () => {}).resume();
    done(error);
  };
  const take = (part: Buffer): void => {
    // Allocated once much of it has come: an announced length alone costs nothing.
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
    // Most bodies come in one piece, and nothing is waited for after it.
    else if (bytes !== announced) silence.broken();
  };
  const end = (): void => {
    silence.end();
    const whole = joined ?? (parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    if (bytes < largeBytes) return void done(null, whole);
    // Judging it and reading it take a while each: others are served in between.
    afterOthers(() => {
      judgeAhead(whole);
      afterOthers(() => done(null, whole));
    });
  };
  // From the start: what was announced and never begins holds its connection as well.
  const silence = new Silence(state.waits, () => {
    if (req.destroyed) silence.end();
    else stop(bodyStalled(stallMs));
  });
  req.on("data", take).on("end", end).on("error", stop);
}
