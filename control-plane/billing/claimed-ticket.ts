// Reads the ticket of a quarantined record for an operator who vouches for it. Its host may have written anything.
import { Type } from "typebox";
import { Value } from "typebox/value";
import type { Ticket } from "../../proto/ticket.ts";
import { type UsageRecord, usageFieldList } from "../../proto/usage-record.ts";
import { RefusedRecord, ticketOf, whyRefused } from "./record.ts";

const Amount = Type.Union([Type.String(), Type.Number()]);
const Count = Type.Integer({ minimum: 0 });
const ProviderTerms = Type.Object({ leases: Count, rates: Type.Tuple([Amount, Amount, Amount, Amount]) });
const Units = Type.Record(Type.String(), Type.Number());
const schemas = { text: Type.String(), texts: Type.Array(Type.String()), amount: Amount, integer: Count, time: Count };

/** Fields of the record that come from the ticket; a ticket of an earlier version may lack some. */
const termFields = Object.fromEntries(
  usageFieldList
    .filter((field) => field.from === "ticket" && field.in === undefined)
    .map(({ name, key = name, type }) => [key, Type.Optional(schemas[type as keyof typeof schemas])]),
);

/** Fields of a ticket that the settlement reads. */
const ClaimedTicket = Type.Object({
  ...termFields,
  requestId: Type.String(),
  attempt: Type.Integer({ minimum: 1 }),
  account: Type.String(),
  admittedAtMs: Count,
  rates: Type.Tuple([Amount, Amount, Amount]),
  leaseIds: Type.Array(Type.String()),
  hold: Amount,
  permits: Type.Optional(Count),
  inputTokensBound: Type.Optional(Count),
  inputTokensEstimate: Type.Optional(Count),
  maxTokens: Type.Optional(Count),
  provider: Type.Optional(ProviderTerms),
  units: Type.Optional(
    Type.Object({ rates: Type.Tuple([Amount, Amount, Amount, Amount]), most: Type.Optional(Units) }),
  ),
});

/** A usage record has no nested fields. */
const FlatRecord = Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]));

/** Returns the ticket, which nothing proves. Throws RefusedRecord when it or the record has a malformed field. */
export function claimedTicket(wire: UsageRecord): Ticket {
  requireShape(FlatRecord, wire, "record");
  const text = ticketOf(wire);
  let ticket: unknown;
  try {
    ticket = JSON.parse(text);
  } catch {
    throw new RefusedRecord("unsealed", whyRefused.unsealed);
  }
  requireShape(ClaimedTicket, ticket, "ticket");
  return ticket as Ticket;
}

function requireShape(schema: typeof ClaimedTicket | typeof FlatRecord, value: unknown, what: string): void {
  if (Value.Check(schema, value)) return;
  const [first] = Value.Errors(schema, value);
  const field = first?.instancePath.slice(1, 100);
  throw new RefusedRecord("malformed", `its ${what} has a malformed ${field ? `field "${field}"` : "shape"}`);
}
