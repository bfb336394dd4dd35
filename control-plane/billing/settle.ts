// Turns usage records into usage rows and ledger entries. Idempotent: a record that is already stored changes nothing and is
// acknowledged again.
import type { HostId } from "../../proto/ids.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { claimedTicket } from "./claimed-ticket.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { Quarantine } from "./quarantine.ts";
import {
  provenTicket,
  type QuarantineProblem,
  RefusedRecord,
  readRecord,
  type SettledRecord,
  type TicketSeals,
} from "./record.ts";
import { type QueueDeps, SettlementQueue } from "./settlement-queue.ts";

/** Retention keeps usage records for at least 400 days, so younger ones have not expired. */
const expiresAfterMs = 399 * 86_400_000;

export interface Settlement {
  /**
   * Bills records of requests that this installation sent to `host`, and quarantines the others. Returns the spool ids of
   * records that were settled or quarantined, now or before. Never throws. The others are to be sent again: the database is
   * unavailable, the delivered count of a lost attempt may still arrive, or the key of a seal has not arrived here.
   */
  settle(records: readonly SpooledRecord[], nodeEpoch: string, host: HostId): Promise<string[]>;
  /**
   * Bills a quarantined record by its ticket, which nothing proves: an operator vouches for it. Throws RefusedRecord or
   * RangeError when it cannot be billed. False when the database is unavailable or the record has to wait.
   */
  release(record: SpooledRecord): Promise<boolean>;
}

export interface SettlementDeps extends Omit<QueueDeps, "clock"> {
  readonly seals: TicketSeals;
  readonly quarantine: Quarantine;
  readonly clock?: Clock;
}

interface Refused {
  readonly wire: SpooledRecord;
  readonly problem: QuarantineProblem;
  readonly why: string;
}

export function createSettlement(deps: SettlementDeps): Settlement {
  const clock = deps.clock ?? systemClock;
  const queue = new SettlementQueue({ ...deps, clock });

  /** Expired records were removed, so settling one that is sent again would bill it twice. Throws DatabaseUnavailable. */
  async function expiredBeforeMs(records: readonly SettledRecord[]): Promise<number> {
    const youngestMs = clock.unixMs() - expiresAfterMs;
    const mayBeExpired = records.some(({ admittedAtMs }) => admittedAtMs < youngestMs);
    return (mayBeExpired ? await deps.store.expiredBeforeMs() : undefined) ?? Number.NEGATIVE_INFINITY;
  }

  return {
    async settle(records, nodeEpoch, host) {
      const durable: string[] = [];
      if (queue.isPausing) return durable;
      const refused: Refused[] = [];
      const proven = records.flatMap((wire) => {
        try {
          const ticket = provenTicket(wire, host, deps.seals);
          // Undefined: the key of its seal has not arrived here yet.
          return ticket ? [{ wire, record: readRecord(wire, ticket), trace: ticket.trace }] : [];
        } catch (error) {
          const problem = error instanceof RefusedRecord ? error.problem : "malformed";
          refused.push({ wire, problem, why: reasonOf(error) });
          return [];
        }
      });
      let expiredMs: number;
      try {
        expiredMs = await expiredBeforeMs(proven.map(({ record }) => record));
      } catch (error) {
        deps.log.error({ err: error, records: records.length }, "could not settle usage; agents will send it again");
        return durable;
      }
      const settled = proven.map(async ({ wire, record, trace }) => {
        if (record.admittedAtMs < expiredMs) return void refused.push({ wire, ...expired });
        if (queue.isFull) return;
        const outcome = await queue.add(record, trace);
        if (outcome === "durable") durable.push(String(wire.spoolId));
        else if (outcome !== "again") refused.push({ wire, problem: "refused_value", why: reasonOf(outcome.refused) });
      });
      void queue.drain();
      await Promise.all(settled);
      if (refused.length === 0) return durable;
      const items = refused.map(({ wire, ...known }) => ({ ...known, ...namesOf(wire), record: JSON.stringify(wire) }));
      const kept = await deps.quarantine.put(host, nodeEpoch, items);
      return [...durable, ...refused.filter((_, i) => kept[i]).map(({ wire }) => String(wire.spoolId))];
    },

    async release(record) {
      const claimed = readRecord(record, claimedTicket(record));
      const expiredMs = await expiredBeforeMs([claimed]).catch(() => undefined);
      if (expiredMs === undefined) return false;
      if (claimed.admittedAtMs < expiredMs) throw new RefusedRecord(expired.problem, expired.why);
      const settled = queue.add(claimed);
      void queue.drain();
      const outcome = await settled;
      if (typeof outcome === "object") throw new RefusedRecord("refused_value", reasonOf(outcome.refused));
      return outcome === "durable";
    },
  };
}

const expired = { problem: "expired", why: "usage records of that time have expired" } as const;

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Request and attempt as the host names them: the ticket may be unreadable. */
function namesOf(wire: SpooledRecord): { readonly requestId: string; readonly attempt: number } {
  const { requestId, attempt } = wire;
  return {
    requestId: typeof requestId === "string" ? requestId.slice(0, 200) : "",
    attempt: Number.isSafeInteger(attempt) ? attempt : 0,
  };
}
