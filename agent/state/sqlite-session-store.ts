// State of the session, in the same file as the spool. Reads use memory: everything is loaded at open.
import type { Logger } from "pino";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { HostId } from "../../proto/ids.ts";
import type { CommandLog, KnownOutcome, SessionStore } from "../session/store.ts";
import type { StateThread } from "./state-thread.ts";
import type { TextSeal } from "./text-seal.ts";

export function sqliteSessionStore(thread: StateThread, host: HostId, seal: TextSeal, log: Logger): SessionStore {
  let epoch = BigInt(thread.meta.highest_epoch ?? "0");
  let fenced = thread.meta.fenced ?? "";
  let mark = thread.meta.restore_mark ?? "";
  let desired = parse(thread.meta.desired, seal, log);
  const sawEpoch = async (seen: bigint) => {
    if (seen <= epoch) return;
    epoch = seen;
    await thread.write(["set", "highest_epoch", seen.toString()]);
  };
  return {
    hostId: () => host,
    highestEpoch: () => epoch,
    desired: () => desired,
    save: async (next) => {
      desired = next;
      const sealed = seal.seal(JSON.stringify(next));
      await Promise.all([thread.write(["set", "desired", sealed]), sawEpoch(BigInt(next.nodeEpoch))]);
    },
    sawEpoch,
    restoreMark: () => mark,
    sawRestoreMark: async (seen) => {
      if (seen === "" || seen === mark) return;
      mark = seen;
      await thread.write(["set", "restore_mark", seen]);
    },
    fencedWhy: () => fenced,
    sawFenced: async (why) => {
      if (why === fenced) return;
      fenced = why;
      await thread.write(["set", "fenced", why]);
    },
  };
}

function parse(sealed: string | undefined, seal: TextSeal, log: Logger): DesiredState__Output | undefined {
  if (sealed === undefined) return undefined;
  try {
    return JSON.parse(seal.open(sealed)) as DesiredState__Output;
  } catch (error) {
    log.error({ err: error }, "could not read the stored desired state; waiting for the control plane");
    return undefined;
  }
}

/** A control plane repeats at most a hundred commands without a known outcome. */
const maxCommands = 200;

interface Entry {
  readonly id: string;
  readonly ended: KnownOutcome | undefined;
}

export function sqliteCommandLog(thread: StateThread, log: Logger): CommandLog {
  let entries = commandsIn(thread.meta.commands, log);
  const put = async (entry: Entry) => {
    const before = entries;
    entries = [...entries.filter((one) => one.id !== entry.id), entry].slice(-maxCommands);
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

function commandsIn(text: string | undefined, log: Logger): readonly Entry[] {
  if (text === undefined) return [];
  try {
    return JSON.parse(text) as readonly Entry[];
  } catch (error) {
    log.error({ err: error }, "could not read the stored commands; a repeated command will run again");
    return [];
  }
}
