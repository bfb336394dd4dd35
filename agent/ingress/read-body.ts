// Reads the request's body into one buffer. Both the size of each body and the total of all held bodies are bounded.
import type { IncomingMessage } from "node:http";
import type { Plane } from "./plane.ts";

export type BodyProblem = "too_large" | "busy";
/**
 * Calls back once, unless the client disconnects before the end (the answer's `close` reports that). The bytes of a returned
 * body count as held until the caller subtracts them from `plane.heldBodyBytes`.
 */
export type ReadBody = (done: (body: Buffer | BodyProblem) => void) => void;

export function readBody(req: IncomingMessage, plane: Plane, done: (body: Buffer | BodyProblem) => void): void {
  const { maxBodyBytes, maxHeldBodyBytes } = plane.limits;
  const announced = Number(req.headers["content-length"] ?? 0);
  if (announced > maxBodyBytes) return void done("too_large");
  if (plane.heldBodyBytes + announced > maxHeldBodyBytes) return void done("busy");
  const parts: Buffer[] = [];
  let bytes = 0;
  const stop = (problem: BodyProblem) => {
    letGo();
    req.off("data", onData).off("end", onEnd).resume();
    done(problem);
  };
  const onData = (part: Buffer) => {
    parts.push(part);
    bytes += part.length;
    plane.heldBodyBytes += part.length;
    if (bytes > maxBodyBytes) stop("too_large");
    else if (plane.heldBodyBytes > maxHeldBodyBytes) stop("busy");
  };
  const onEnd = () => {
    req.off("close", letGo);
    done(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
  };
  const letGo = () => {
    plane.heldBodyBytes -= bytes;
    bytes = 0;
  };
  req.on("data", onData).on("end", onEnd).once("close", letGo);
}
