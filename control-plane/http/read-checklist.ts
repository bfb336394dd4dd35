import type { Caller } from "../accounts/caller.ts";
import { AccountGone } from "../accounts/errors.ts";
import type { Checklists } from "../billing/checklist.ts";
import { renderChecklist } from "./render-payment.ts";
import type { Checklist } from "./schemas/payment.ts";

/** With `isAnew` the account's standing is judged first. Throws AccountGone. */
export async function readChecklist(checklists: Checklists, caller: Caller, isAnew = false): Promise<Checklist> {
  const report = await checklists.read(caller.account, isAnew);
  if (!report) throw new AccountGone();
  return renderChecklist(report);
}
