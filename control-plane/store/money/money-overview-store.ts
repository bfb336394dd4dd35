import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { MoneyOverviewStore } from "../../billing/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { moneySums } from "./money-sums.ts";

type Sum = "imbalance" | "leased" | "open" | "held" | "holds" | "loss" | "quarantined";

export function createMoneyOverviewStore(db: Db): MoneyOverviewStore {
  return asked<MoneyOverviewStore>({
    async overview(month, max) {
      const sums = await sql<Record<Sum, bigint>>`
        select
          (select coalesce(sum(granted - settled), 0)::bigint from gpu_hold join lease using (lease_id)
            where ended_at is null and closed_at is null) as held,
          (select count(*) from gpu_hold where ended_at is null) as holds,
          (select coalesce(sum(granted - settled), 0)::bigint from lease where closed_at is null) as leased,
          (select count(*) from lease where closed_at is null) as open,
          ${moneySums}`.execute(db);
      const suspended = await sql<{ reason: string; accounts: bigint }>`
        select reason, count(*) as accounts from account_suspension group by 1 order by 1`.execute(db);
      const spenders = await sql<{
        accountId: AccountId;
        displayName: string;
        email: string;
        spent: bigint;
        requests: bigint;
      }>`
        select account_id, display_name, email, spent, requests from (
          select account_id, sum(cost)::bigint as spent, sum(requests)::bigint as requests from usage_day
          where month = ${month} group by 1 having sum(cost) > 0 order by 2 desc, 1 limit ${max}) top
        join account using (account_id) order by spent desc, account_id`.execute(db);
      const {
        imbalance = 0n,
        leased = 0n,
        open = 0n,
        held = 0n,
        holds = 0n,
        loss = 0n,
        quarantined = 0n,
      } = sums.rows[0] ?? {};
      return {
        imbalance,
        gpuHeld: held,
        openGpuHolds: Number(holds),
        leased,
        openLeases: Number(open),
        lossOfHour: loss,
        quarantined: Number(quarantined),
        suspended: suspended.rows.map(({ reason, accounts }) => ({ reason, accounts: Number(accounts) })),
        spenders: spenders.rows.map((row) => ({
          account: row.accountId,
          displayName: row.displayName,
          email: row.email,
          spent: row.spent,
          requests: Number(row.requests),
        })),
      };
    },
  });
}
