import { type Static, Type } from "typebox";

export const MoneyOverviewBody = Type.Object({
  month: Type.String({ description: "YYYY.MM, UTC" }),
  imbalance_usd: Type.Number({ description: "Of the ledger's last ten minutes: anything but 0 is a defect" }),
  leased_usd: Type.Number({ description: "Held of budgets for requests that run or may come" }),
  open_leases: Type.Integer(),
  loss_last_hour_usd: Type.Number({ description: "Work that no customer could be charged for" }),
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
export type MoneyOverviewBody = Static<typeof MoneyOverviewBody>;
