// The parts of the agent's state, each behind the port of its user, in one database. Reads use memory: everything is loaded at open.
import type { Logger } from "pino";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { HostId } from "../../proto/ids.ts";
import type { MeterStore, Tally } from "../metering/store.ts";
import type { CommandLog, KnownOutcome, SessionStore } from "../session/store.ts";
import type { StateThread } from "./state-thread.ts";
import type { TextSeal } from "./text-seal.ts";

export function sqliteSessionStore(thread: StateThread, host: HostId, seal: TextSeal, log: Logger): SessionStore {
  let epoch = BigInt(thread.meta.highest_epoch ?? "0");
  let fenced = thread.meta.fenced ?? "";
  let mark = thread.meta.restore_mark ?? "";
  let desired = storedIn(
    thread.meta.desired,
    (text): DesiredState__Output => JSON.parse(seal.open(text)),
    (err) => log.error({ err }, "could not read the stored desired state; waiting for the control plane"),
  );
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

/** A control plane repeats at most a hundred commands without a known outcome. */
const maxCommands = 200;

interface Entry {
  readonly id: string;
  readonly ended: KnownOutcome | undefined;
}

export function sqliteCommandLog(thread: StateThread, log: Logger): CommandLog {
  let entries =
    storedIn(
      thread.meta.commands,
      (text): readonly Entry[] => JSON.parse(text),
      (err) => log.error({ err }, "could not read the stored commands; a repeated command will run again"),
    ) ?? [];
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

export function sqliteMeterStore(thread: StateThread, log: Logger): MeterStore {
  return {
    kept: () =>
      storedIn(
        thread.meta.metering,
        (text): readonly Tally[] => JSON.parse(text),
        (err) => log.error({ err }, "could not read the stored GPU minutes; they will not be billed"),
      ) ?? [],
    // Passed in the same event-loop turn, so they are one transaction: a minute is either open or ended.
    save: async (open, ended) => {
      await Promise.all([
        ...ended.map((record) => thread.end({ ...record, leaseIds: [], json: JSON.stringify(record) })),
        thread.write(["set", "metering", JSON.stringify(open)]),
      ]);
    },
  };
}

/** Undefined without a stored value, and for one that cannot be read. */
function storedIn<T>(text: string | undefined, read: (text: string) => T, unreadable: (error: unknown) => void) {
  try {
    return text === undefined ? undefined : read(text);
  } catch (error) {
    unreadable(error);
    return undefined;
  }
}
