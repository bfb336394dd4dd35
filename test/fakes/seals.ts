// Keys that seal tickets in tests, and usage records of requests that were sealed with them.
import type { TicketSeals } from "../../control-plane/billing/record.ts";
import type { HostId } from "../../proto/ids.ts";
import { type SealKey, signTicket, type Ticket, ticketText } from "../../proto/ticket.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";

/** Host of records that a test does not say more of. */
export const testHost = "host000000000001" as HostId;
const agentKey = Buffer.alloc(32, 7);

const seal: SealKey = { version: 1, bytes: Buffer.alloc(32, 9) };
export const testSeals: TicketSeals = {
  newest: () => seal,
  find: (version) => (version === seal.version ? seal.bytes : version > seal.version ? "newer" : "removed"),
};

/** What an agent has after it accepted the ticket. */
export const sealedText = (ticket: Ticket, key: SealKey = seal): string =>
  ticketText(signTicket(ticket, agentKey, key));

let spoolIds = 0;

/** The record of a request that ended well. */
export function recordOf(ticket: Ticket, figures: Partial<SpooledRecord> = {}): SpooledRecord {
  spoolIds += 1;
  return {
    spoolId: String(spoolIds),
    requestId: ticket.requestId,
    attempt: ticket.attempt,
    ticket: sealedText(ticket),
    endedAtMs: ticket.admittedAtMs,
    nodeEpoch: "1",
    source: "engine",
    endReason: "stop",
    queueMs: 0,
    firstByteMs: 1,
    totalMs: 2,
    ...figures,
  };
}
