import type { Selectable } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { Discount } from "../billing/store.ts";
import type { Database } from "./schema.ts";

export const discountOf = (row: Selectable<Database["discount"]>): Discount => ({
  id: row.discount_id,
  name: row.name,
  text: row.text,
  basisPoints: row.basis_points,
  account: row.account_id as AccountId | null,
  model: row.model,
  surface: row.surface,
  effectiveFromMs: row.effective_from.getTime(),
  effectiveToMs: row.effective_to?.getTime() ?? null,
});
