// State of the GPU meter, in the same file as the spool: finished minutes become usage records.
import type { Logger } from "pino";
import type { MeterStore, Tally } from "../metering/store.ts";
import type { StateThread } from "./state-thread.ts";

export function sqliteMeterStore(thread: StateThread, log: Logger): MeterStore {
  return {
    kept: () => parse(thread.meta.metering, log),
    // Passed in the same event-loop turn, so they are one transaction: a minute is either open or ended.
    save: async (open, ended) => {
      await Promise.all([
        ...ended.map((record) => thread.end({ ...record, leaseIds: [], json: JSON.stringify(record) })),
        thread.write(["set", "metering", JSON.stringify(open)]),
      ]);
    },
  };
}

function parse(text: string | undefined, log: Logger): readonly Tally[] {
  if (text === undefined) return [];
  try {
    return JSON.parse(text) as readonly Tally[];
  } catch (error) {
    log.error({ err: error }, "could not read the stored GPU minutes; they will not be billed");
    return [];
  }
}
