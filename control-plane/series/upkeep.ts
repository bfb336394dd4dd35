// Writes time series: this control plane's sums of requests every few seconds, and samples, sums and roll-ups of all as a repeated job.
import type { Logger } from "pino";
import type { ReplicaId } from "../../proto/ids.ts";
import { background, repeat } from "../../proto/repeat.ts";
import { keptMs } from "./kept.ts";
import type { RequestTally } from "./request-tally.ts";
import { resolutions, type SeriesStore } from "./store.ts";

const flushEveryMs = 5_000;
/** Reports arrive every 5 s. */
const freshMs = 30_000;
const batch = 5_000;

export function createSeriesUpkeep(deps: {
  readonly store: SeriesStore;
  readonly tally: RequestTally;
  readonly replica: ReplicaId;
  readonly log: Logger;
  readonly flushEveryMs?: number;
}) {
  const { store, tally, log } = deps;
  let isUnavailable = false;

  async function flush(): Promise<void> {
    const { rows, written } = tally.take();
    try {
      await store.writeRequests(deps.replica, rows);
      written();
      isUnavailable = false;
    } catch (error) {
      tally.again();
      if (!isUnavailable) log.warn({ err: error }, "could not write the sums of requests; will retry");
      isUnavailable = true;
    }
  }

  const loop = background((signal) => repeat(deps.flushEveryMs ?? flushEveryMs, signal, flush));
  return {
    start: loop.start,
    /** Writes what was counted since the last time. */
    async stop(): Promise<void> {
      await loop.stop();
      await flush();
    },
    /** Idempotent; every step runs even if another one fails, and the first failure is thrown at the end. */
    async run(signal: AbortSignal): Promise<void> {
      const failures: unknown[] = [];
      const steps = [
        () => store.sampleHosts(freshMs),
        // Rows are rolled up once, with what was charged in their time.
        () => store.writeSpend().then(store.rollUp),
        ...resolutions.map((resolution) => async () => {
          while (!signal.aborted && (await store.deleteOld(resolution, keptMs[resolution], batch)) >= batch);
        }),
      ];
      for (const step of steps) if (!signal.aborted) await step().catch((error) => failures.push(error));
      if (failures.length > 0) throw failures[0];
    },
  };
}
