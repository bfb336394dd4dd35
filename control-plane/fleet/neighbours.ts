// Returns hosts that may have the weights a host is about to download, each with a short-lived ticket for its data path.

import type { Neighbour } from "../../proto/gen/stoker/fleet/v1/Neighbour.ts";
import type { HostId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { signTicket, weightsPurpose } from "../../proto/ticket.ts";
import type { DataPathAddress, Dial } from "./dial.ts";
import type { HostClocks } from "./host-clocks.ts";
import { operatorTicket } from "./prover.ts";
import type { FleetStore } from "./store.ts";

export type FindNeighbours = (host: HostId, repo: string) => Promise<readonly Neighbour[]>;

const maxNeighbours = 8;
/** A longer download requests a new ticket when it is cut. */
const ticketMs = 10 * 60_000;

export function createFindNeighbours(deps: {
  readonly store: Pick<FleetStore, "neighbours">;
  readonly clocks: Pick<HostClocks, "state">;
  /** A host that this control plane may not contact is not offered to others either. */
  readonly dial: Dial;
}): FindNeighbours {
  return async (host, repo) => {
    const found = await deps.store.neighbours(host, repo, 4 * maxNeighbours);
    const alive = found.filter((one) => deps.clocks.state(one.hostId) === "live" && mayDial(deps.dial, one));
    return alive.slice(0, maxNeighbours).map(({ hostId, origin, ticketKey }) => {
      const ticket = { ...operatorTicket(weightsPurpose, ""), expiresAtMs: steadyTime.nowMs() + ticketMs };
      return { hostId, origin, ticket: signTicket(ticket, ticketKey) };
    });
  };
}

function mayDial(dial: Dial, to: DataPathAddress): boolean {
  try {
    dial(to);
    return true;
  } catch {
    return false;
  }
}
