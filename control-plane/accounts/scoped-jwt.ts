// Scoped tokens as the account's owner makes them and looks at them. Others make the same with any JWT library.
import { type AccountId, type BudgetId, type KeyId, randomId } from "../../proto/ids.ts";
import { fromUsd, type NanoUsd } from "../../proto/money.ts";
import type { Act } from "./act.ts";
import { type AccountSecrets, openApiKey, unwrapDek } from "./envelope.ts";
import {
  budgetOf,
  isSignedWith,
  jwtPrefix,
  longestLifeS,
  mostJwtBytes,
  readClaims,
  readJwt,
  signJwt,
} from "./jwt-format.ts";
import type { AccountStore, SigningKeyRow, TokenStore } from "./store.ts";
import { BadExpiry, ScopedJwtNotFound, SigningKeyUnknown, TooManyModels } from "./token-errors.ts";

export interface ScopedJwtWish {
  readonly apiKeyName: string;
  /** Undefined: any model. */
  readonly models: readonly string[] | undefined;
  /** Unix seconds. */
  readonly expiresAtS: number | undefined;
  readonly expiresDeltaS: number | undefined;
  readonly limitUsd: number | undefined;
}

export interface ScopedJwtState {
  /** What tells it from others wherever its spending is shown; nothing that opens anything. */
  readonly budget: BudgetId;
  readonly expiresAtS: number;
  /** Null: any model. */
  readonly models: readonly string[] | null;
  /** Null: no limit of its own. */
  readonly limit: NanoUsd | null;
  /** Settled so far. */
  readonly spent: NanoUsd;
}

export interface ScopedJwts {
  /** Throws SigningKeyUnknown, BadExpiry, TooManyModels. */
  mint(account: AccountId, wish: ScopedJwtWish, act: Act): Promise<string>;
  /**
   * Of a token that the asking key signed, expired or not; a session, which has no key, may ask for any of its account's.
   * Throws ScopedJwtNotFound for any other.
   */
  inspect(caller: { readonly account: AccountId; readonly key: KeyId | "" }, token: string): Promise<ScopedJwtState>;
}

export function createScopedJwts(deps: {
  readonly store: TokenStore & Pick<AccountStore, "findSigningKey">;
  readonly secrets: AccountSecrets;
  readonly unixMs?: () => number;
}): ScopedJwts {
  const { store } = deps;
  const unixMs = deps.unixMs ?? Date.now;

  const secretOf = ({ key, account, wrappedDek, ciphertext }: SigningKeyRow): string =>
    openApiKey(unwrapDek(deps.secrets, wrappedDek, account.account), ciphertext, account.account, key);

  return {
    async mint(account, wish, act) {
      const expiresAtS = expiryOf(wish, Math.floor(unixMs() / 1000));
      const row = await store.findSigningKey(account, wish.apiKeyName);
      if (!row) throw new SigningKeyUnknown(wish.apiKeyName);
      const { models, limitUsd } = wish;
      const token = signJwt(
        { account, keyName: wish.apiKeyName, secret: secretOf(row) },
        {
          exp: expiresAtS,
          ...(models ? { models } : {}),
          ...(limitUsd === undefined ? {} : { spending_limit: limitUsd }),
          // Two tokens of the same wish have a budget each.
          jti: randomId(16),
        },
      );
      const read = token.length > mostJwtBytes ? undefined : readJwt(token);
      if (!read) throw new TooManyModels(mostJwtBytes);
      await store.noteMint(
        {
          account,
          key: row.key,
          budget: budgetOf(read),
          expiresAtS,
          models: models ?? null,
          limit: limitUsd === undefined ? null : fromUsd(limitUsd),
        },
        act,
      );
      return token;
    },

    async inspect(caller, text) {
      const token = readJwt(text.startsWith(jwtPrefix) ? text : jwtPrefix + text);
      const row =
        token &&
        (await (caller.key === ""
          ? store.findSigningKey(caller.account, token.keyName)
          : store.findSealedKey(caller.account, caller.key)));
      if (!row || token.account !== caller.account || !isSignedWith(token, secretOf(row)))
        throw new ScopedJwtNotFound();
      const claims = readClaims(token);
      if (!claims) throw new ScopedJwtNotFound();
      const budget = budgetOf(token);
      return { ...claims, budget, spent: await store.spentOf(caller.account, budget) };
    },
  };
}

function expiryOf({ expiresAtS, expiresDeltaS }: ScopedJwtWish, nowS: number): number {
  if (expiresAtS !== undefined && expiresDeltaS !== undefined)
    throw new BadExpiry("Give `expires_delta` or `expires_at`, not both.", "expires_at");
  if (expiresAtS === undefined) return nowS + (expiresDeltaS ?? longestLifeS);
  if (expiresAtS <= nowS) throw new BadExpiry("`expires_at` is in the past. Give a later time.", "expires_at");
  if (expiresAtS > nowS + longestLifeS)
    throw new BadExpiry("`expires_at` is more than a year away, the longest a token lives.", "expires_at");
  return expiresAtS;
}
