import type { Selectable } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { Discount } from "../../billing/store.ts";
import type { Database } from "../core/schema.ts";

export const discountOf = (row: Selectable<Database["discount"]>): Discount => ({
  id: row.discountId,
  name: row.name,
  text: row.text,
  basisPoints: row.basisPoints,
  account: row.accountId as AccountId | null,
  model: row.model,
  surface: row.surface,
  effectiveFromMs: row.effectiveFrom.getTime(),
  effectiveToMs: row.effectiveTo?.getTime() ?? null,
});
