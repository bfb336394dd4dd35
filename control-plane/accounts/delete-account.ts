// Deletes an account: ends its keys, sessions and deployments, and frees its e-mail address and names. Ledger and usage stay.

import type { Actor } from "../act.ts";
import { type AccountRecord, accountRecord } from "./account-record.ts";
import { accountGone, accountInUse, lastAdmin } from "./errors.ts";
import { lastOwner } from "./member-errors.ts";
import type { EndRefusal, ProfileStore } from "./store.ts";

/** Returns the former record. Throws accountGone, lastAdmin, lastOwner, accountInUse. */
export type DeleteAccount = (actor: Actor) => Promise<AccountRecord>;

interface DeleteDeps {
  readonly store: Pick<ProfileStore, "profile" | "mayEnd" | "end">;
  /** Ends every deployment of the account; ignores those that ended already. */
  readonly endDeployments: (actor: Actor) => Promise<void>;
}

/** A deployment may be created between the end of the others and the end of the account. */
const attempts = 3;

export function createDeleteAccount({ store, endDeployments }: DeleteDeps): DeleteAccount {
  return async (actor) => {
    const row = await store.profile(actor.account);
    if (!row) throw accountGone();
    // Checked first: a refusal must come before anything has ended.
    refuse(await store.mayEnd(actor.account));
    for (let attempt = 1; attempt <= attempts; attempt++) {
      await endDeployments(actor);
      const outcome = await store.end(actor);
      if (outcome === "ended") return accountRecord(row);
      if (outcome !== "has_deployments") refuse(outcome);
    }
    throw accountInUse();
  };
}

function refuse(outcome: "yes" | EndRefusal): void {
  if (outcome === "gone") throw accountGone();
  if (outcome === "last_admin") throw lastAdmin();
  if (typeof outcome === "object") throw lastOwner(outcome.lastOwnerOf);
}
