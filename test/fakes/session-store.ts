import type { SessionStore } from "../../agent/session/store.ts";
import type { HostId } from "../../proto/ids.ts";

/** State of an agent that remembers nothing but its highest epoch. */
export function emptySessionStore(host: HostId): SessionStore {
  let epoch = 0n;
  return {
    hostId: () => host,
    highestEpoch: () => epoch,
    desired: () => undefined,
    save: async () => {},
    sawEpoch: async (seen) => {
      epoch = seen > epoch ? seen : epoch;
    },
    fencedWhy: () => "",
    restoreMark: () => "",
    sawRestoreMark: async () => {},
    sawFenced: async () => {},
  };
}
