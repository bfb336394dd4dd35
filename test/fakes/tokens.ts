// The verbs of API keys over one key of one account.
import type { ApiToken, ApiTokens } from "../../control-plane/accounts/api-tokens.ts";
import type { Caller } from "../../control-plane/accounts/caller.ts";
import type { Idempotency, KeptAnswer } from "../../control-plane/accounts/idempotency.ts";
import { noRules } from "../../control-plane/accounts/key-rules.ts";
import type { ScopedJwts } from "../../control-plane/accounts/scoped-jwt.ts";
import {
  answerNotKept,
  idempotencyKeyInUse,
  idempotencyKeyReused,
  scopedJwtNotFound,
  signingKeyUnknown,
} from "../../control-plane/accounts/token-errors.ts";
import type { AccountId, BudgetId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";

export function fakeTokens(owner: Caller, secret: string): ApiTokens {
  const one: ApiToken = {
    key: owner.key,
    name: "auto",
    fragment: secret.slice(-5),
    token: `stk_********${secret.slice(-5)}`,
    ...noRules,
    monthlyLimit: null,
    createdAtMs: 1_786_000_000_000,
    lastUsedAtMs: null,
    memberId: null,
    projectId: null,
  };
  const found = async (account: AccountId, secretOrId: string) => {
    if (account !== owner.account) return undefined;
    if (secretOrId === secret) return { ...one, token: secret };
    return secretOrId === one.key ? one : undefined;
  };
  return {
    create: async (_account, name, rules, _act, monthlyLimit = null) => ({
      ...one,
      name,
      ...rules,
      monthlyLimit,
      token: "stk_made",
    }),
    list: async (account) => (account === owner.account ? [one] : []),
    get: found,
    change: async ({ account }, secretOrId, change, _act, monthlyLimit) => {
      const token = await found(account, secretOrId);
      return token && { ...token, ...change, ...(monthlyLimit === undefined ? {} : { monthlyLimit }) };
    },
    revoke: ({ account }, secretOrId) => found(account, secretOrId),
  };
}

/** Knows one token, `jwt:known`, signed by that caller's key, called `auto`. */
export function fakeScopedJwts(owner: Caller): ScopedJwts {
  return {
    mint: async (_account, request) => {
      if (request.apiKeyName !== "auto") throw signingKeyUnknown(request.apiKeyName);
      return "jwt:made";
    },
    inspect: async (account, token) => {
      if (account !== owner.account || token !== "jwt:known") throw scopedJwtNotFound();
      return {
        budget: "jwt/of-ada" as BudgetId,
        expiresAtS: 1_790_000_000,
        models: null,
        limit: nano(2_500_000_000n),
        spent: nano(1n),
      };
    },
  };
}

/** Keeps answers in memory, for ever. */
export function fakeIdempotency(): Idempotency {
  const rows = new Map<string, { readonly hash: Buffer; answer: KeptAnswer | "spent" | undefined }>();
  return {
    async begin({ account, route, key, bodyHash }) {
      const at = JSON.stringify([account, route, key]);
      const row = rows.get(at);
      if (row && !row.hash.equals(bodyHash)) throw idempotencyKeyReused();
      if (row?.answer === "spent") throw answerNotKept();
      if (row?.answer) return { kept: row.answer };
      if (row) throw idempotencyKeyInUse(1);
      const own: { readonly hash: Buffer; answer: KeptAnswer | "spent" | undefined } = {
        hash: bodyHash,
        answer: undefined,
      };
      rows.set(at, own);
      return {
        claim: {
          finish: async (answer) => void Object.assign(own, { answer }),
          spend: async () => void Object.assign(own, { answer: "spent" }),
          abandon: async () => void rows.delete(at),
        },
      };
    },
  };
}
