import { sql } from "kysely";
import type { AccountId, KeyId, RequestId } from "../../../proto/ids.ts";
import type { Rejection, RejectionStore } from "../../billing/store.ts";
import { asked, tooLong } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";

interface Row {
  readonly requestId: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly at: Date;
  readonly model: string;
  readonly route: string;
  readonly status: number;
  readonly code: string;
  readonly label: string | null;
  readonly others: number;
}

export function createRejectionStore(db: Db): RejectionStore {
  // A host may have run it and reported what it cost: then it is in the request log.
  const rejected = db
    .selectFrom("rejectedRequest")
    .selectAll()
    .where(sql<boolean>`not exists (select from usage where usage.request_id = rejected_request.request_id)`);

  return asked<RejectionStore>({
    async writeRejections(rejections) {
      const rows = rejections.map((one) => ({
        request_id: one.id,
        account_id: one.account,
        key_id: one.key,
        at_ms: one.atMs,
        model: one.model,
        route: one.route,
        status: one.status,
        code: one.code,
        label: one.label,
        others: one.otherCount,
      }));
      await sql`
        insert into rejected_request (request_id, account_id, key_id, at, model, route, status, code, label, others)
        select request_id, account_id, key_id, to_timestamp(at_ms / 1000), model, route, status, code, label, others
        from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as r (request_id text, account_id text, key_id text, at_ms float8,
          model text, route text, status integer, code text, label text, others integer)
        where exists (select from account where account.account_id = r.account_id and deleted_at is null)
        on conflict (request_id) do update set others = excluded.others`.execute(db);
    },

    async rejections(account, { fromMs, toMs, model, key, code }, after, limit) {
      let query = rejected.where("at", ">=", new Date(fromMs)).where("at", "<", new Date(toMs));
      if (account !== undefined) query = query.where("accountId", "=", account);
      if (model !== undefined) query = query.where("model", "=", model);
      if (key !== undefined) query = query.where("keyId", "=", key);
      if (code !== undefined) query = query.where("code", "=", code);
      if (after !== undefined) {
        let last = db
          .selectFrom("rejectedRequest")
          .select(sql<string>`at::text`.as("at"))
          .where("requestId", "=", after);
        if (account !== undefined) last = last.where("accountId", "=", account);
        const place = await last.executeTakeFirst();
        if (!place) return undefined;
        const at = sql<Date>`${place.at}::timestamptz`;
        query = query.where("at", "<=", at).where(sql<boolean>`(at, request_id) < (${at}, ${after})`);
      }
      const page = query.orderBy("at", "desc").orderBy("requestId", "desc").limit(limit);
      return (await page.execute().catch(tooLong("Looking through these requests"))).map(rejectionOf);
    },

    async rejection(id, account) {
      const named =
        account === undefined
          ? rejected.where("requestId", "=", id)
          : rejected
              .where("accountId", "=", account)
              .where((is) => is.or([is("requestId", "=", id), is("label", "=", id)]));
      const found = await named.orderBy("at", "desc").limit(1).executeTakeFirst();
      return found && rejectionOf(found);
    },
  });
}

const rejectionOf = (row: Row): Rejection => ({
  id: row.requestId as RequestId,
  account: row.accountId as AccountId,
  key: row.keyId as KeyId | "",
  atMs: row.at.getTime(),
  model: row.model,
  route: row.route,
  status: row.status,
  code: row.code,
  label: row.label,
  otherCount: row.others,
});
