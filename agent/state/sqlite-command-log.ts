// Started commands, in the same file as the spool: one row, because there are few. A control plane sends commands without a
// known outcome, at most a hundred, so the newest are enough.
import type { Logger } from "pino";
import type { CommandLog, KnownOutcome } from "../session/store.ts";
import type { StateThread } from "./state-thread.ts";

const kept = 200;

interface Entry {
  readonly id: string;
  readonly ended: KnownOutcome | undefined;
}

export function sqliteCommandLog(thread: StateThread, log: Logger): CommandLog {
  let entries = parse(thread.meta.commands, log);
  const put = async (entry: Entry) => {
    const before = entries;
    entries = [...entries.filter((one) => one.id !== entry.id), entry].slice(-kept);
    try {
      await thread.write(["set", "commands", JSON.stringify(entries)]);
    } catch (error) {
      entries = before;
      throw error;
    }
  };
  return {
    find: (id) => entries.find((entry) => entry.id === id),
    begin: (id) => put({ id, ended: undefined }),
    end: (id, ended) => put({ id, ended }),
  };
}

function parse(text: string | undefined, log: Logger): readonly Entry[] {
  if (text === undefined) return [];
  try {
    return JSON.parse(text) as readonly Entry[];
  } catch (error) {
    log.error({ err: error }, "could not read the stored commands; a repeated command will run again");
    return [];
  }
}
