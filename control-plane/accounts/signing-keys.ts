// Opened signing keys of scoped tokens. Cached for minutes: a caller that mints a token per end user would otherwise cost a
// database call each. A revocation over the change feed clears them.
import type { AccountId } from "../../proto/ids.ts";
import { type AccountSecrets, openApiKey, unwrapDek } from "./envelope.ts";
import type { AccountStore, KeyRow } from "./store.ts";

export interface SigningKey {
  readonly row: KeyRow;
  readonly secret: string;
}

const keptForMs = 300_000;
const most = 10_000;

export interface SigningKeys {
  /** Undefined when there is no such live key. Throws what the store throws. */
  find(account: AccountId, name: string): SigningKey | undefined | Promise<SigningKey | undefined>;
  forget(isConcerned: (row: KeyRow) => boolean): void;
}

export function createSigningKeys(deps: {
  readonly store: Pick<AccountStore, "findSigningKey">;
  readonly secrets: AccountSecrets;
  /** Monotonic. */
  readonly nowMs: () => number;
}): SigningKeys {
  /** Least recently used first; keyed by account, NUL and name, so that no account id collides with a name. */
  const kept = new Map<string, SigningKey & { readonly untilMs: number }>();
  let changes = 0;

  async function ask(account: AccountId, name: string, at: string): Promise<SigningKey | undefined> {
    const seen = changes;
    const row = await deps.store.findSigningKey(account, name);
    if (!row) return undefined;
    const dek = unwrapDek(deps.secrets, row.wrappedDek, account);
    const key = { row, secret: openApiKey(dek, row.ciphertext, account, row.key) };
    if (seen === changes) {
      kept.set(at, { ...key, untilMs: deps.nowMs() + keptForMs });
      if (kept.size > most) kept.delete(kept.keys().next().value as string);
    }
    return key;
  }

  return {
    find(account, name) {
      const at = `${account}\0${name}`;
      const key = kept.get(at);
      if (key && key.untilMs > deps.nowMs()) {
        kept.delete(at);
        kept.set(at, key);
        return key;
      }
      kept.delete(at);
      return ask(account, name, at);
    },
    forget(isConcerned) {
      changes += 1;
      for (const [at, { row }] of kept) if (isConcerned(row)) kept.delete(at);
    },
  };
}
