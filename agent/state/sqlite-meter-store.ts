// What the GPU meter keeps, in the same file as the spool: minutes that ended leave as usage records.
import type { Logger } from "pino";
import type { MeterStore, Tally } from "../metering/store.ts";
import type { StateThread } from "./state-thread.ts";

export function sqliteMeterStore(thread: StateThread, log: Logger): MeterStore {
  return {
    kept: () => parse(thread.meta.metering, log),
    // Handed over in one turn, so they are one transaction: a minute is never open and ended, and never neither.
    save: async (open, ended) => {
      await Promise.all([
        ...ended.map((record) => thread.end({ ...record, json: JSON.stringify(record) })),
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
    log.error({ err: error }, "the kept GPU minutes are unreadable: what was measured of them is not billed");
    return [];
  }
}
