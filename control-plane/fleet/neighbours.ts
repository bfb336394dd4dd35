// Who else may have the weights a host is about to download, each with a ticket that its data path takes for a short time.
import type { Neighbour } from "../../proto/gen/stoker/fleet/v1/Neighbour.ts";
import type { HostId } from "../../proto/ids.ts";
import { signTicket, weightsPurpose } from "../../proto/ticket.ts";
import type { HostClocks } from "./host-clocks.ts";
import { operatorTicket } from "./prove-data-path.ts";
import type { FleetStore } from "./store.ts";

export type FindNeighbours = (host: HostId, repo: string) => Promise<readonly Neighbour[]>;

const most = 8;
/** A download that takes longer asks again where it is cut. */
const ticketMs = 10 * 60_000;

export function createFindNeighbours(deps: {
  readonly store: Pick<FleetStore, "neighbours">;
  readonly clocks: Pick<HostClocks, "state">;
}): FindNeighbours {
  return async (host, repo) => {
    const found = await deps.store.neighbours(host, repo, 4 * most);
    const alive = found.filter(({ hostId }) => deps.clocks.state(hostId) === "live").slice(0, most);
    return alive.map(({ origin, ticketKey }) => {
      const ticket = { ...operatorTicket(weightsPurpose, ""), expiresAtMs: Date.now() + ticketMs };
      return { origin, ticket: signTicket(ticket, ticketKey) };
    });
  };
}
