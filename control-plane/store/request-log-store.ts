import { type Kysely, type Selectable, sql } from "kysely";
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import { endedAsAsked } from "../../proto/usage.ts";
import type { LoggedRequest, RequestLogStore } from "../billing/store.ts";
import { asked } from "./asked.ts";
import { tooLong } from "./database.ts";
import type { Database } from "./schema.ts";

const columns = [
  "request_id",
  "attempt",
  "voided",
  "account_id",
  "key_id",
  "model",
  "deploy_id",
  "instance_id",
  "end_reason",
  "admitted_at",
  "ended_at",
  "queue_ms",
  "first_byte_ms",
  "total_ms",
  "input_tokens",
  "cached_input_tokens",
  "output_tokens",
  "reasoning_tokens",
  "charge",
] as const;

export function createRequestLogStore(db: Kysely<Database>): RequestLogStore {
  // A metered minute of a deployment is no request.
  const requests = db.selectFrom("usage").select(columns).where("gpu_ms", "=", 0n);

  return asked<RequestLogStore>({
    async page(account, { fromMs, toMs, model, onlyFailed }, after, limit) {
      let query = requests
        .where("account_id", "=", account)
        .where("voided", "=", false)
        .where("settled_at", ">=", new Date(fromMs))
        .where("settled_at", "<", new Date(toMs));
      if (model !== undefined) query = query.where("model", "=", model);
      if (onlyFailed) query = query.where("end_reason", "not in", endedAsAsked);
      if (after !== undefined) {
        const at = sql<Date>`${after.settledAt}::timestamptz`;
        query = query
          .where("settled_at", "<=", at)
          .where(sql<boolean>`(settled_at, request_id) < (${at}, ${after.id})`);
      }
      const page = query.orderBy("settled_at", "desc").orderBy("request_id", "desc").limit(limit);
      return (await page.execute().catch(tooLong("Looking through these requests"))).map(requestOf);
    },

    async position(account, id) {
      const row = await db
        .selectFrom("usage")
        .select([sql<string>`settled_at::text`.as("settled_at"), "request_id"])
        .where("request_id", "=", id)
        .where("account_id", "=", account)
        .orderBy("attempt", "desc")
        .executeTakeFirst();
      return row && { settledAt: row.settled_at, id: row.request_id as RequestId };
    },

    async attempts(id, account) {
      const named = async (ids: readonly string[]) => {
        let query = requests.where("request_id", "in", ids);
        if (account !== undefined) query = query.where("account_id", "=", account);
        return (await query.orderBy("admitted_at").orderBy("attempt").limit(100).execute()).map(requestOf);
      };
      const found = await named([id]);
      if (found.length > 0 || account === undefined) return found;
      const labelled = await db
        .selectFrom("request_label")
        .select("request_id")
        .where("label", "=", id)
        .where("account_id", "=", account)
        .limit(100)
        .execute();
      return labelled.length === 0 ? [] : named(labelled.map((row) => row.request_id));
    },
  });
}

function requestOf(row: Pick<Selectable<Database["usage"]>, (typeof columns)[number]>): LoggedRequest {
  return {
    id: row.request_id as RequestId,
    attempt: row.attempt,
    isVoided: row.voided,
    account: row.account_id as AccountId,
    key: row.key_id as KeyId | "",
    model: row.model,
    deployId: row.deploy_id,
    instanceId: row.instance_id,
    endReason: row.end_reason,
    admittedAtMs: row.admitted_at.getTime(),
    endedAtMs: row.ended_at.getTime(),
    queueMs: row.queue_ms,
    firstByteMs: row.first_byte_ms,
    totalMs: row.total_ms,
    inputTokens: Number(row.input_tokens),
    cachedInputTokens: Number(row.cached_input_tokens),
    outputTokens: Number(row.output_tokens),
    reasoningTokens: Number(row.reasoning_tokens),
    charge: row.charge,
  };
}
