// A body as it comes, in memory: bounded by itself, and beside those of all other requests. What has come is counted, as it
// comes: what is only announced holds nothing, or whoever announces and never sends would shut out everybody. It is refused
// at once where there is no room for it now, and let go where nothing more of it comes.
import type { IncomingMessage } from "node:http";
import { BodiesFull, BodyStalled, BodyTooLarge } from "./errors.ts";
import type { RequestState } from "./request-state.ts";
import { Silence, stallMs } from "./silence.ts";

/**
 * Calls back once, unless the client goes before the end. An error: BodyTooLarge, BodiesFull, BodyStalled, or what broke the
 * connection.
 */
export function receiveBody(
  req: IncomingMessage,
  state: Pick<RequestState, "hasRoomFor" | "holdBody" | "waits">,
  limitBytes: number,
  done: (error: Error | null, bytes?: Buffer) => void,
): void {
  const announced = Number(req.headers["content-length"] ?? 0);
  if (announced > limitBytes) return void done(new BodyTooLarge(limitBytes));
  if (announced > 0 && !state.hasRoomFor(announced)) return void done(new BodiesFull());
  const parts: Buffer[] = [];
  let bytes = 0;
  const stop = (error: Error): void => {
    silence.end();
    req.off("data", take).off("end", end).off("error", stop);
    // The rest is read and dropped.
    req.on("error", () => {}).resume();
    done(error);
  };
  const take = (part: Buffer): void => {
    parts.push(part);
    bytes += part.length;
    if (bytes > limitBytes) stop(new BodyTooLarge(limitBytes));
    else if (!state.holdBody(part.length)) stop(new BodiesFull());
    // Most bodies come in one piece, and nothing is waited for after it.
    else if (bytes !== announced) silence.broken();
  };
  const end = (): void => {
    silence.end();
    done(null, parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
  };
  // From the start: what was announced and never begins holds its connection as well.
  const silence = new Silence(state.waits, () => {
    if (req.destroyed) silence.end();
    else stop(new BodyStalled(stallMs));
  });
  req.on("data", take).on("end", end).on("error", stop);
}
