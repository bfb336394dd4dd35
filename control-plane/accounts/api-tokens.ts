// API keys as their owner manages them. The secret is returned at creation and when the caller names the key by the secret;
// otherwise it is masked.
import { type AccountId, type BudgetId, type KeyId, randomId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import type { Act } from "../act.ts";
import { addressTest } from "./allowed-ips.ts";
import { fragmentOf, looksLikeApiKey, makeApiKey } from "./api-key.ts";
import type { Caller } from "./caller.ts";
import type { DataKeys } from "./data-keys.ts";
import { type AccountSecrets, lookupOf, sealApiKey } from "./envelope.ts";
import { InvalidApiKey } from "./errors.ts";
import { checkRules, type KeyRules, loosens } from "./key-rules.ts";
import { memberGone } from "./member-errors.ts";
import { memberRefusal } from "./permissions.ts";
import { projectNotAllowed, projectNotFound } from "./projects.ts";
import type { AccountStore, KeyOwner, KeyRecord, TokenStore } from "./store.ts";
import { badKeyName, keyNameTaken, shutsOutCaller } from "./token-errors.ts";

export interface ApiToken extends KeyRecord {
  /** The secret, or its masked form. */
  readonly token: string;
}

/** In an organisation: the member, whose own keys need no other right. */
export type KeyEditor = Pick<Caller, "account" | "member">;

/** A name travels in the `kid` of tokens that are signed with the key. */
const maxNameBytes = 128;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const controls = /[\u0000-\u001f\u007f]/;

/** Undefined: the key does not exist or belongs to another account. */
export function createApiTokens(deps: {
  readonly store: TokenStore & Pick<AccountStore, "findKey">;
  readonly dataKeys: DataKeys;
  readonly secrets: AccountSecrets;
  /** Budget of a key in the month of this time. */
  readonly monthOf: (key: KeyId, unixMs: number) => BudgetId;
  readonly unixMs?: () => number;
}) {
  const { store } = deps;
  const unixMs = deps.unixMs ?? steadyTime.nowMs;

  async function keyOf(account: AccountId, secretOrId: string): Promise<KeyId | undefined> {
    if (!looksLikeApiKey(secretOrId)) return secretOrId as KeyId;
    const row = await store.findKey(lookupOf(deps.secrets, secretOrId));
    return row?.account.account === account ? row.key : undefined;
  }

  /** Own keys need no right beyond that of the request. */
  async function checkEditor(caller: KeyEditor, key: KeyId): Promise<void> {
    if (!caller.member) return;
    const record = await store.keyRecord(caller.account, key);
    const refusal =
      record && record.memberId !== caller.member.id ? memberRefusal("manageKeys", caller.member) : undefined;
    if (refusal) throw refusal;
  }

  const budgetOf = (key: KeyId, limit: bigint | null | undefined) =>
    limit === undefined ? undefined : { limit, month: deps.monthOf(key, unixMs()) };

  return {
    /**
     * `limit`: nano-USD per UTC month; null: none. Throws keyNameTaken, badKeyName, badAllowedIps, badExpiry, memberGone,
     * projectNotFound, projectNotAllowed, and InvalidApiKey when the account was ended.
     */
    async create(
      account: AccountId,
      name: string,
      rules: KeyRules,
      act: Act,
      limit: bigint | null = null,
      of: Partial<KeyOwner> = {},
    ): Promise<ApiToken> {
      checkName(name);
      checkRules(rules, unixMs());
      const dek = await deps.dataKeys.of(account);
      if (!dek) throw new InvalidApiKey();
      const key = randomId<"key">(16);
      const secret = makeApiKey();
      const made = await store.createKey(
        account,
        {
          key,
          name,
          lookup: lookupOf(deps.secrets, secret),
          ciphertext: sealApiKey(dek, secret, account, key),
          fragment: fragmentOf(secret),
        },
        rules,
        limit === null ? undefined : budgetOf(key, limit),
        act,
        { member: of.member ?? null, project: of.project ?? null },
      );
      if (made === "name_taken") throw keyNameTaken(name);
      if (made === "member_gone") throw memberGone();
      if (made === "project_gone") throw projectNotFound();
      if (made === "account_gone") throw new InvalidApiKey();
      if ("allowed" in made) throw projectNotAllowed(made.allowed);
      return { ...made, token: secret };
    },

    list: async (account: AccountId): Promise<readonly ApiToken[]> => (await store.keys(account)).map(masked),

    /** Includes the secret when looked up by the secret. */
    async get(account: AccountId, secretOrId: string): Promise<ApiToken | undefined> {
      const key = await keyOf(account, secretOrId);
      const record = key && (await store.keyRecord(account, key));
      if (!record) return undefined;
      return looksLikeApiKey(secretOrId) ? { ...record, token: secretOrId } : masked(record);
    },

    /**
     * `limit`: undefined: unchanged. Throws badAllowedIps, badExpiry, memberRoleNotAllowed for a key of another member and where a
     * member who may not manage keys loosens their own, and shutsOutCaller when the key would exclude the caller's own address.
     */
    async change(
      caller: KeyEditor & Pick<Caller, "key">,
      secretOrId: string,
      change: Partial<KeyRules>,
      act: Act,
      limit?: bigint | null,
    ): Promise<ApiToken | undefined> {
      if (limit === undefined || Object.keys(change).length > 0) checkRules(change, unixMs());
      const key = await keyOf(caller.account, secretOrId);
      if (!key) return undefined;
      if (key === caller.key && addressTest(change.allowedIps ?? null)?.(act.ip) === false)
        throw shutsOutCaller(act.ip);
      await checkEditor(caller, key);
      const refusal = memberRefusal("manageKeys", caller.member);
      const check = (before: KeyRules): void => {
        if (refusal && loosens(before, change)) throw refusal;
      };
      const record = await store.changeKey(caller.account, key, change, budgetOf(key, limit), act, check);
      return record && masked(record);
    },

    /** Ends the key and every token signed with it, including the caller's own. Throws memberRoleNotAllowed for a key of another member. */
    async revoke(caller: KeyEditor, secretOrId: string, act: Act): Promise<ApiToken | undefined> {
      const { account } = caller;
      const key = await keyOf(account, secretOrId);
      if (key) await checkEditor(caller, key);
      const record = key && (await store.revokeKey(account, key, act));
      return record ? masked(record) : undefined;
    },
  };
}

export type ApiTokens = ReturnType<typeof createApiTokens>;

const masked = (record: KeyRecord): ApiToken => ({ ...record, token: `stk_********${record.fragment}` });

function checkName(name: string): void {
  if (name.trim() === "" || Buffer.byteLength(name) > maxNameBytes || controls.test(name) || !name.isWellFormed())
    throw badKeyName(maxNameBytes);
}
