import type { Caller } from "../accounts/caller.ts";
import { AccountGone } from "../accounts/errors.ts";
import type { UsageQueries } from "../billing/usage-queries.ts";
import { renderChecklist } from "./render-account.ts";
import type { Checklist } from "./schemas/account.ts";

/** Throws AccountGone. */
export async function readChecklist(usage: UsageQueries, caller: Caller): Promise<Checklist> {
  const funds = await usage.funds(caller.account);
  if (!funds) throw new AccountGone();
  return renderChecklist(funds, caller.email !== "");
}
