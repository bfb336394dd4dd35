// A body as it comes, in memory: bounded by itself, and beside those of all other requests. What has come is counted, as it
// comes: what is only announced holds nothing, or whoever announces and never sends would shut out everybody. It is refused
// at once where there is no room for it now.
import type { IncomingMessage } from "node:http";
import { BodiesFull, BodyTooLarge } from "./errors.ts";
import type { RequestState } from "./request-state.ts";

/** Calls back once, unless the client goes before the end. An error: BodyTooLarge, BodiesFull, or what broke the connection. */
export function receiveBody(
  req: IncomingMessage,
  state: RequestState,
  limitBytes: number,
  done: (error: Error | null, bytes?: Buffer) => void,
): void {
  const announced = Number(req.headers["content-length"] ?? 0);
  if (announced > limitBytes) return void done(new BodyTooLarge(limitBytes));
  if (announced > 0 && !state.hasRoomFor(announced)) return void done(new BodiesFull());
  const parts: Buffer[] = [];
  let bytes = 0;
  const stop = (error: Error): void => {
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
  };
  const end = (): void => done(null, parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
  req.on("data", take).on("end", end).on("error", stop);
}
