import type { Caller } from "../../accounts/caller.ts";
import { accountGone } from "../../accounts/errors.ts";
import type { Checklists } from "../../billing/checklist.ts";
import type { Checklist } from "./payment-schemas.ts";
import { renderChecklist } from "./render-payment.ts";

/** With `isAnew` the account's standing is judged first. Throws accountGone. */
export async function readChecklist(checklists: Checklists, caller: Caller, isAnew = false): Promise<Checklist> {
  const report = await checklists.read(caller.account, isAnew);
  if (!report) throw accountGone();
  return renderChecklist(report);
}
