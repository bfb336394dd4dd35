import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";

/** Shorter than a host's lease: a defect in an agent does not end its instances. */
export const hostPauseMs = 10_000;

/** Hosts whose session ended because of invalid messages, so that they cannot repeat expensive messages at will. */
export interface HostPauses {
  begin(host: HostId, why: string): void;
  isPaused(host: HostId): boolean;
}

export function createHostPauses(deps: { readonly monotonicMs: () => number; readonly log: Logger }): HostPauses {
  const endsMs = new Map<HostId, number>();
  const isPaused = (host: HostId) => deps.monotonicMs() < (endsMs.get(host) ?? Number.NEGATIVE_INFINITY);
  return {
    begin(host, why) {
      // A host logs once per pause, however many streams it has open.
      if (!isPaused(host))
        deps.log.error({ host, why, pauseMs: hostPauseMs }, "session ended: the host sent invalid messages");
      for (const [one, endMs] of endsMs) if (endMs <= deps.monotonicMs()) endsMs.delete(one);
      endsMs.set(host, deps.monotonicMs() + hostPauseMs);
    },
    isPaused,
  };
}
