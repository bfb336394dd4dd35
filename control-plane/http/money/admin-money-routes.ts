import { type Static, Type } from "typebox";
import { nano, toUsd } from "../../../proto/money.ts";
import type { MoneyOverview } from "../../billing/money-overview.ts";
import { monthName, monthOf } from "../../billing/period.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { MoneyFeatures } from "./features.ts";

const MoneyOverviewBody = Type.Object({
  month: Type.String({ description: "YYYY.MM, UTC" }),
  imbalance_usd: Type.Number({ description: "Sum of the ledger's last ten minutes; other than 0 it is a defect" }),
  leased_usd: Type.Number({ description: "Reserved for running and future requests" }),
  open_leases: Type.Integer(),
  gpu_held_usd: Type.Number({ description: "Part of leased_usd that running instances hold for their next minutes" }),
  open_gpu_holds: Type.Integer({ description: "Instances that hold money" }),
  loss_last_hour_usd: Type.Number({ description: "Work that no customer could be charged for" }),
  quarantined_records: Type.Integer({ description: "Usage records that require a decision" }),
  suspended: Type.Array(Type.Object({ reason: Type.String(), accounts: Type.Integer() })),
  top_spenders: Type.Array(
    Type.Object({
      uid: Type.String(),
      display_name: Type.String(),
      email: Type.String(),
      spent_usd: Type.Number(),
      requests: Type.Integer(),
    }),
  ),
});
type MoneyOverviewBody = Static<typeof MoneyOverviewBody>;

const maxSpenders = 20;

export function addAdminMoneyRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/money", {
    summary: "Get ledger balance, reservations, losses and top spenders of this month",
    answer: MoneyOverviewBody,
    async handler() {
      const month = monthOf(Date.now());
      return rendered(monthName(month), await deps.moneyOverview.overview(month, maxSpenders));
    },
  });
}

const usd = (amount: bigint) => toUsd(nano(amount));

const rendered = (month: string, overview: MoneyOverview): MoneyOverviewBody => ({
  month,
  imbalance_usd: usd(overview.imbalance),
  leased_usd: usd(overview.leased),
  open_leases: overview.openLeases,
  gpu_held_usd: usd(overview.gpuHeld),
  open_gpu_holds: overview.openGpuHolds,
  loss_last_hour_usd: usd(overview.lossOfHour),
  quarantined_records: overview.quarantined,
  suspended: overview.suspended.map(({ reason, accounts }) => ({ reason, accounts })),
  top_spenders: overview.spenders.map((one) => ({
    uid: one.account,
    display_name: one.displayName,
    email: one.email,
    spent_usd: usd(one.spent),
    requests: one.requests,
  })),
});
