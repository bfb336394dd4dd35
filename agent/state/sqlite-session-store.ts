// What the session keeps, in the same file as the spool. Reads come from memory: everything was loaded at open.
import type { Logger } from "pino";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { HostId } from "../../proto/ids.ts";
import type { SessionStore } from "../session/store.ts";
import type { StateThread } from "./state-thread.ts";

export function sqliteSessionStore(thread: StateThread, host: HostId, log: Logger): SessionStore {
  let epoch = BigInt(thread.meta.highest_epoch ?? "0");
  let desired = parse(thread.meta.desired, log);
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
      await Promise.all([thread.write(["set", "desired", JSON.stringify(next)]), sawEpoch(BigInt(next.nodeEpoch))]);
    },
    sawEpoch,
  };
}

function parse(text: string | undefined, log: Logger): DesiredState__Output | undefined {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as DesiredState__Output;
  } catch (error) {
    log.error({ err: error }, "the kept desired state is unreadable: waiting for the control plane's");
    return undefined;
  }
}
