// Attempts without a usage record.
import { sql } from "kysely";
import type { ProviderRates } from "../../../proto/money.ts";
import type { CountStore, LostAttempt } from "../../billing/store.ts";
import { auditSystem } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

/** Columns of a DeliveredCount. */
export const deliveredColumns = [
  ...(["requestId", "attempt", "accountId as account", "leaseIds", "hold"] as const),
  sql<number>`output_tokens::float8`.as("outputTokens"),
] as const;

export function createUnrecordedStore(db: Db): CountStore {
  return asked<CountStore>({
    async keepLost(counts) {
      const known = counts.flatMap(({ requestId, attempt, lost }) =>
        lost ? [{ request_id: requestId, attempt, host_id: lost.host, lost: jsonOf(lost) }] : [],
      );
      if (known.length === 0) return;
      await sql`update delivered_count d set host_id = k.host_id, lost = k.lost
        from json_to_recordset(${JSON.stringify(known)}::json)
          as k (request_id text, attempt integer, host_id text, lost jsonb)
        where d.request_id = k.request_id and d.attempt = k.attempt and d.lost is null`.execute(db);
    },

    async resolveRecorded() {
      await sql`update delivered_count d set resolved_at = now() where resolved_at is null
        and exists (select 1 from usage u where u.request_id = d.request_id and u.attempt = d.attempt)`.execute(db);
    },

    async openCounts(silentMs, limit) {
      const silence = sql<Date>`now() - make_interval(secs => ${silentMs / 1000})`;
      const rows = await db
        .selectFrom("deliveredCount as d")
        .leftJoin("host as h", "h.hostId", "d.hostId")
        .select(deliveredColumns)
        .select(["lost", epochMs("at").as("reportedAtMs")])
        // An agent that was restarted after the answer broke off sends what its predecessor kept within that time, or never.
        .select(
          sql<boolean>`coalesce(h.seen_at >= ${silence} and not (h.run_began_at < ${silence}
            and h.run_began_at > to_timestamp((d.lost->>'brokeAtMs')::float8 / 1000)), false)`.as("mayStillReport"),
        )
        .where("d.resolvedAt", "is", null)
        .where("d.at", "<", silence)
        // Counts of a host that may still report wait for a day; order them behind the others.
        .orderBy("mayStillReport")
        .orderBy("d.at")
        .limit(limit)
        .execute();
      return rows.map(({ lost, ...count }) => ({
        ...count,
        ...(lost === null ? {} : { lost: lostOf(lost as LostJson) }),
      }));
    },

    release: (count, why) =>
      inTransaction(db, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("deliveredCount")
          .set({ resolvedAt: now })
          .where("requestId", "=", count.requestId)
          .where("attempt", "=", count.attempt)
          .where("resolvedAt", "is", null)
          .executeTakeFirstOrThrow();
        if (numUpdatedRows === 0n) return false;
        await auditSystem(trx, {
          action: "usage.release",
          subject: `${count.requestId}/${count.attempt}`,
          account: count.account,
          before: { output_tokens: count.outputTokens, hold_nano_usd: String(count.hold) },
          note: why,
        });
        return true;
      }),
  });
}

/** JSON has no bigint. */
const jsonOf = ({ provider, ...lost }: LostAttempt) => ({
  ...lost,
  ...(provider ? { provider: { ...provider, rates: asTexts(provider.rates) } } : {}),
  priceVersion: String(lost.priceVersion),
  rates: {
    input: String(lost.rates.input),
    cachedInput: String(lost.rates.cachedInput),
    output: String(lost.rates.output),
  },
});
const asTexts = ({ input, cachedInput, output, request }: ProviderRates) => ({
  input: String(input),
  cachedInput: String(cachedInput),
  output: String(output),
  request: String(request),
});
type LostJson = ReturnType<typeof jsonOf>;

const lostOf = ({ provider, ...json }: LostJson): LostAttempt => ({
  ...json,
  ...(provider ? { provider: { ...provider, rates: asRates(provider.rates) } } : {}),
  priceVersion: BigInt(json.priceVersion),
  rates: {
    input: BigInt(json.rates.input),
    cachedInput: BigInt(json.rates.cachedInput),
    output: BigInt(json.rates.output),
  },
});

const asRates = ({ input, cachedInput, output, request }: ReturnType<typeof asTexts>): ProviderRates => ({
  input: BigInt(input),
  cachedInput: BigInt(cachedInput),
  output: BigInt(output),
  request: BigInt(request),
});
