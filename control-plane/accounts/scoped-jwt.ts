// Scoped tokens as the account's owner makes them and looks at them. Others make the same with any JWT library.

import { type AccountId, type BudgetId, randomId } from "../../proto/ids.ts";
import { fromUsd, type NanoUsd } from "../../proto/money.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import type { Act } from "../act.ts";
import type { KeyEditor } from "./api-tokens.ts";
import { countAttempts } from "./attempts.ts";
import { type AccountSecrets, openApiKey, unwrapDek } from "./envelope.ts";
import { budgetOf, jwtPrefix, longestLifeS, maxJwtBytes, readJwt, signJwt, verifyJwt } from "./jwt-format.ts";
import { isExpired } from "./key-rules.ts";
import { memberRefusal } from "./permissions.ts";
import type { AccountStore, AttemptStore, SigningKeyRow, TokenStore } from "./store.ts";
import { badExpiry, scopedJwtNotFound, signingKeyUnknown, tooManyModels } from "./token-errors.ts";

export interface ScopedJwtParams {
  readonly apiKeyName: string;
  /** Undefined: any model. */
  readonly models: readonly string[] | undefined;
  /** Unix seconds. */
  readonly expiresAtS: number | undefined;
  readonly expiresDeltaS: number | undefined;
  readonly limitUsd: number | undefined;
  /** Only for realtime sessions; as in the claim `scope`. */
  readonly scope?: "realtime";
}

export interface ScopedJwtState {
  /** Id of the token in reports of its spending; grants no access. */
  readonly budget: BudgetId;
  readonly expiresAtS: number;
  /** Null: any model. */
  readonly models: readonly string[] | null;
  /** Null: no limit of its own. */
  readonly limit: NanoUsd | null;
  /** Settled so far. */
  readonly spent: NanoUsd;
}

/** Tokens of one account: each is a row until it expires. Programs that need more sign them themselves. */
export const mintLimit = { max: 10_000, windowMs: 900_000 };

export function createScopedJwts(deps: {
  readonly store: TokenStore & AttemptStore & Pick<AccountStore, "findSigningKey">;
  readonly secrets: AccountSecrets;
  readonly unixMs?: () => number;
}) {
  const { store } = deps;
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  const mints = countAttempts("scoped-jwt", mintLimit, { store, unixMs });

  const secretOf = ({ key, account, wrappedDek, ciphertext }: SigningKeyRow): string =>
    openApiKey(unwrapDek(deps.secrets, wrappedDek, account.account), ciphertext, account.account, key);

  return {
    /** Throws signingKeyUnknown, memberRoleNotAllowed for a key of another member, badExpiry, tooManyModels, TooManyAttempts. */
    async mint(caller: KeyEditor, request: ScopedJwtParams, act: Act): Promise<string> {
      const { account } = caller;
      const expiresAtS = expiryOf(request, unixSeconds(unixMs()));
      const row = await store.findSigningKey(account, request.apiKeyName);
      if (!row || isExpired(row, unixMs())) throw signingKeyUnknown(request.apiKeyName);
      const refusal =
        caller.member && row.member?.id !== caller.member.id ? memberRefusal("manageKeys", caller.member) : undefined;
      if (refusal) throw refusal;
      const { models, limitUsd } = request;
      await mints.take(account);
      const token = await signJwt(
        { account, keyName: request.apiKeyName, secret: secretOf(row) },
        {
          exp: expiresAtS,
          ...(models ? { models } : {}),
          ...(models?.length === 1 ? { model: models[0] } : {}),
          ...(limitUsd === undefined ? {} : { spending_limit: limitUsd }),
          ...(request.scope && { scope: request.scope }),
          // Two tokens of the same request have a budget each.
          jti: randomId(16),
        },
      );
      const read = token.length > maxJwtBytes ? undefined : readJwt(token);
      if (!read) throw tooManyModels(maxJwtBytes);
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

    /**
     * Returns the restrictions of a token, expired or not, that a live key of this account signed.
     * Throws scopedJwtNotFound for any other.
     */
    async inspect(account: AccountId, text: string): Promise<ScopedJwtState> {
      const token = readJwt(text.startsWith(jwtPrefix) ? text : jwtPrefix + text);
      if (token?.account !== account) throw scopedJwtNotFound();
      const row = await store.findSigningKey(account, token.keyName);
      const claims = row && (await verifyJwt(token, secretOf(row)));
      if (!claims) throw scopedJwtNotFound();
      const budget = budgetOf(token);
      return { ...claims, budget, spent: await store.spentOf(account, budget) };
    },
  };
}

export type ScopedJwts = ReturnType<typeof createScopedJwts>;

function expiryOf({ expiresAtS, expiresDeltaS }: ScopedJwtParams, nowS: number): number {
  if (expiresAtS !== undefined && expiresDeltaS !== undefined)
    throw badExpiry("Give `expires_delta` or `expires_at`, not both.", "expires_at");
  if (expiresAtS === undefined) return nowS + (expiresDeltaS ?? longestLifeS);
  if (expiresAtS <= nowS) throw badExpiry("`expires_at` is in the past. Give a later time.", "expires_at");
  if (expiresAtS > nowS + longestLifeS)
    throw badExpiry("`expires_at` is more than a year away, the longest a token lives.", "expires_at");
  return expiresAtS;
}
