import { type Selectable, sql } from "kysely";
import type { AccountId, KeyId, RequestId } from "../../../proto/ids.ts";
import type { ServiceTier } from "../../../proto/service-tier.ts";
import { endedAsAsked } from "../../../proto/usage.ts";
import { type ShownUsage, shownFields } from "../../../proto/usage-record.ts";
import type { LoggedRequest, RejectionStore, RequestLogStore } from "../../billing/store.ts";
import { asked, tooLong } from "../core/outage.ts";
import type { Database, Db } from "../core/schema.ts";
import { createRejectionStore } from "./rejection-store.ts";

const columns = [
  "requestId",
  "attempt",
  "voided",
  "accountId",
  "keyId",
  "model",
  "deployId",
  "instanceId",
  "endReason",
  "admittedAt",
  "endedAt",
  "charge",
  "serviceTier",
] as const;
const shownColumns = shownFields.map(({ name, column }) =>
  sql<number | bigint>`${sql.ref(column)}`.as(name as ShownUsage),
);

export function createRequestLogStore(db: Db): RequestLogStore {
  // A metered minute of a deployment is no request.
  const requests = db
    .selectFrom("usage")
    .select([...columns, ...shownColumns])
    .select(sql<string | null>`(select name from end_user where end_user_id = usage.end_user)`.as("user"))
    .where("gpuMs", "=", 0n);

  const log = asked<Omit<RequestLogStore, keyof RejectionStore>>({
    async page(account, { fromMs, toMs, ...filter }, after, limit) {
      // No index is by model.
      const period =
        filter.model === undefined ? { fromMs, toMs } : await daysOf(db, account, filter.model, { fromMs, toMs });
      if (!period) return [];
      let query = requests
        .where("accountId", "=", account)
        .where("voided", "=", false)
        .where("settledAt", ">=", new Date(period.fromMs))
        .where("settledAt", "<", new Date(period.toMs));
      const { model, key, user, endReason, status, onlyFailed = false } = filter;
      if (model !== undefined) query = query.where("model", "=", model);
      if (key !== undefined) query = query.where("keyId", "=", key);
      if (user !== undefined)
        query = query.where(
          sql<boolean>`end_user = (select end_user_id from end_user where account_id = ${account} and name = ${user})`,
        );
      if (endReason !== undefined) query = query.where("endReason", "=", endReason);
      if (status) query = query.where("httpStatus", ">=", status.min).where("httpStatus", "<=", status.max);
      if (onlyFailed) query = query.where("endReason", "not in", endedAsAsked);
      // Written out, so that PostgreSQL uses the index of these: a failure may be one of a million requests.
      if (onlyFailed || (endReason ?? "stop") !== "stop" || (status && status.min >= 300))
        query = query.where(sql<boolean>`end_reason <> 'stop'`);
      if (after !== undefined) {
        const at = sql<Date>`${after.settledAt}::timestamptz`;
        query = query.where("settledAt", "<=", at).where(sql<boolean>`(settled_at, request_id) < (${at}, ${after.id})`);
      }
      const page = query.orderBy("settledAt", "desc").orderBy("requestId", "desc").limit(limit);
      return (await page.execute().catch(tooLong("Looking through these requests"))).map(requestOf);
    },

    async failures(fromMs, limit) {
      // Account by account, because that is what the index of failures begins with.
      const { rows: ids } = await sql<{ id: string }>`
        select request_id as id from account cross join lateral (
          select request_id, settled_at from usage
          where account_id = account.account_id and end_reason <> 'stop' and end_reason not in (${sql.join(endedAsAsked)})
            and gpu_ms = 0 and not voided and settled_at >= ${new Date(fromMs)}
          order by settled_at desc limit ${limit}) failed
        order by settled_at desc limit ${limit}`
        .execute(db)
        .catch(tooLong("Looking through these requests"));
      if (ids.length === 0) return [];
      const named = ids.map(({ id }) => id);
      const query = requests.where("requestId", "in", named).where("voided", "=", false);
      return (await query.orderBy("settledAt", "desc").orderBy("requestId", "desc").limit(limit).execute()).map(
        requestOf,
      );
    },

    async position(account, id) {
      const row = await db
        .selectFrom("usage")
        .select([sql<string>`settled_at::text`.as("settledAt"), "requestId"])
        .where("requestId", "=", id)
        .where("accountId", "=", account)
        .orderBy("attempt", "desc")
        .executeTakeFirst();
      return row && { settledAt: row.settledAt, id: row.requestId as RequestId };
    },

    async attempts(id, account) {
      const named = async (ids: readonly string[]) => {
        let query = requests.where("requestId", "in", ids);
        if (account !== undefined) query = query.where("accountId", "=", account);
        return (await query.orderBy("admittedAt").orderBy("attempt").limit(100).execute()).map(requestOf);
      };
      const found = await named([id]);
      if (found.length > 0 || account === undefined) return found;
      const labelled = await db
        .selectFrom("requestLabel")
        .select("requestId")
        .where("label", "=", id)
        .where("accountId", "=", account)
        .limit(100)
        .execute();
      return labelled.length === 0 ? [] : named(labelled.map((row) => row.requestId));
    },
  });
  return { ...log, ...createRejectionStore(db) };
}

/** Returns the part of a period that has usage of a model, by whole days; undefined: it has none. */
async function daysOf(
  db: Db,
  account: AccountId,
  model: string,
  period: { readonly fromMs: number; readonly toMs: number },
) {
  const monthOf = (ms: number) => new Date(ms).getUTCFullYear() * 12 + new Date(ms).getUTCMonth();
  // Day 0 is any day of its month.
  const { rows } = await sql<{ first: Date | null; last: Date | null }>`
    select min(start) as first, max(start + case day when 0 then interval '31 days' else interval '24 hours' end) as last
    from (
      select day, make_timestamptz(month / 12, month % 12 + 1, greatest(day, 1), 0, 0, 0, 'UTC') as start
      from usage_day where account_id = ${account} and model = ${model} and records <> 0
        and month between ${monthOf(period.fromMs)} and ${monthOf(period.toMs)}
    ) days`.execute(db);
  const [days] = rows;
  if (!days?.first || !days.last) return undefined;
  return { fromMs: Math.max(period.fromMs, days.first.getTime()), toMs: Math.min(period.toMs, days.last.getTime()) };
}

/** Counts and durations; a bigint column of them stays within 2^53. */
const shownOf = (row: Readonly<Record<ShownUsage, number | bigint>>) =>
  Object.fromEntries(shownFields.map(({ name }) => [name, Number(row[name as ShownUsage])])) as Record<
    ShownUsage,
    number
  >;

function requestOf(
  row: Pick<Selectable<Database["usage"]>, (typeof columns)[number]> &
    Readonly<Record<ShownUsage, number | bigint>> & { readonly user: string | null },
): LoggedRequest {
  return {
    id: row.requestId as RequestId,
    attempt: row.attempt,
    isVoided: row.voided,
    account: row.accountId as AccountId,
    key: row.keyId as KeyId | "",
    model: row.model,
    deployId: row.deployId,
    instanceId: row.instanceId,
    endReason: row.endReason,
    admittedAtMs: row.admittedAt.getTime(),
    endedAtMs: row.endedAt.getTime(),
    charge: row.charge,
    user: row.user,
    tier: (row.serviceTier as ServiceTier | null) ?? "default",
    ...shownOf(row),
  };
}
