// Waiting for a client that has not read what was written to it.
import type { ServerResponse } from "node:http";

/** A client that takes nothing for so long is gone. */
const stallMs = 300_000;

/** After a `write` that returned false: resolves when the client has read on or is gone, by itself or for taking nothing. */
export function untilRead(response: ServerResponse): Promise<void> {
  // Its close event was already emitted.
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const stalled = setTimeout(() => response.destroy(), stallMs);
    const done = () => {
      clearTimeout(stalled);
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
