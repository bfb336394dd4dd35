import type { AccountId } from "../../proto/ids.ts";
import { type AccountSecrets, unwrapDek } from "./envelope.ts";
import type { AccountStore } from "./store.ts";

/** The data key of one account, opened. */
export function createDataKeys(deps: {
  readonly store: Pick<AccountStore, "wrappedDek">;
  readonly secrets: AccountSecrets;
}) {
  return {
    /** Undefined when there is no such account. */
    async of(account: AccountId): Promise<Buffer | undefined> {
      const wrapped = await deps.store.wrappedDek(account);
      return wrapped && unwrapDek(deps.secrets, wrapped, account);
    },
  };
}

export type DataKeys = ReturnType<typeof createDataKeys>;
