import { nano, toUsd } from "../../../proto/money.ts";
import type { MoneyOverview } from "../../billing/money-overview.ts";
import { monthName, monthOf } from "../../billing/period.ts";
import type { Endpoints } from "../endpoint.ts";
import { MoneyOverviewBody } from "../schemas/money-overview.ts";
import type { HttpDeps } from "../verbs.ts";

const mostSpenders = 20;

export function addAdminMoneyRoutes(endpoints: Endpoints, deps: Pick<HttpDeps, "moneyOverview">): void {
  endpoints.add({
    method: "GET",
    path: "/v1/admin/money",
    summary: "Whether the ledger balances, what is held, what was lost, and who spends most this month",
    tag: "operator",
    access: "admin",
    answer: MoneyOverviewBody,
    refusals: [503],
    async handler() {
      const month = monthOf(Date.now());
      return rendered(monthName(month), await deps.moneyOverview.overview(month, mostSpenders));
    },
  });
}

const usd = (amount: bigint) => toUsd(nano(amount));

const rendered = (month: string, overview: MoneyOverview): MoneyOverviewBody => ({
  month,
  imbalance_usd: usd(overview.imbalance),
  leased_usd: usd(overview.leased),
  open_leases: overview.openLeases,
  loss_last_hour_usd: usd(overview.lossOfHour),
  suspended: overview.suspended.map(({ reason, accounts }) => ({ reason, accounts })),
  top_spenders: overview.spenders.map((one) => ({
    uid: one.account,
    display_name: one.displayName,
    email: one.email,
    spent_usd: usd(one.spent),
    requests: one.requests,
  })),
});
