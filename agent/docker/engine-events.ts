import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { GetEventsOptions } from "dockerode";
import type { Logger } from "pino";
import type { EngineClient } from "./engine-client.ts";
import { labelFilter } from "./labels.ts";

const firstDelayMs = 500;
const longestDelayMs = 15_000;

/** Calls back for every event of our containers, and whenever events may have been missed. Ends with the signal. */
export async function followEvents(
  client: EngineClient,
  nodeName: string,
  onChange: () => void,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const filters = { type: ["container" as const], event: ["start", "oom", "die", "destroy"], ...labelFilter(nodeName) };
  for (let delayMs = firstDelayMs; !signal.aborted; ) {
    try {
      const events = await client.call(signal, (docker) =>
        docker.getEvents({ filters, abortSignal: signal } as GetEventsOptions),
      );
      onChange();
      delayMs = firstDelayMs;
      // The engine sends one line per event; what it says is looked up, never trusted.
      for await (const _ of createInterface({ input: events as Readable, signal })) onChange();
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, "the engine's events are not heard");
    }
    await wait(delayMs, undefined, { signal }).catch(() => {});
    delayMs = Math.min(2 * delayMs, longestDelayMs);
  }
}
