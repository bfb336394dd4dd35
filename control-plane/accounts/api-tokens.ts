// API keys as their owner manages them. A secret is shown when it is made and to whoever names it by itself; by its id or
// in a list it is masked.
import { type AccountId, type KeyId, randomId } from "../../proto/ids.ts";
import type { Act } from "./act.ts";
import { addressTest, badAddress } from "./allowed-ips.ts";
import { fragmentOf, looksLikeApiKey, makeApiKey } from "./api-key.ts";
import type { Caller } from "./caller.ts";
import type { DataKeys } from "./data-keys.ts";
import { type AccountSecrets, lookupOf, sealApiKey } from "./envelope.ts";
import { InvalidApiKey } from "./errors.ts";
import type { AccountStore, KeyRecord, TokenStore } from "./store.ts";
import { BadAllowedIps, BadKeyName, KeyNameTaken, ShutsOutCaller } from "./token-errors.ts";

export interface ApiToken extends KeyRecord {
  /** The secret, or its masked form. */
  readonly token: string;
}

/** Undefined stands for a key that is not there, another account's included. */
export interface ApiTokens {
  /** Throws KeyNameTaken, BadKeyName, BadAllowedIps, and InvalidApiKey when the account was ended meanwhile. */
  create(
    account: AccountId,
    wish: { readonly name: string; readonly allowedIps: readonly string[] | null },
    act: Act,
  ): Promise<ApiToken>;
  list(account: AccountId): Promise<readonly ApiToken[]>;
  /** With the secret when asked for by the secret. */
  get(account: AccountId, secretOrId: string): Promise<ApiToken | undefined>;
  /** Throws BadAllowedIps, and ShutsOutCaller when a key would be closed to the very address that asks with it. */
  setAllowedIps(
    caller: Pick<Caller, "account" | "key">,
    secretOrId: string,
    allowedIps: readonly string[] | null,
    act: Act,
  ): Promise<ApiToken | undefined>;
  /** Ends the key and every token signed with it, the caller's own too when it is that one. */
  revoke(account: AccountId, secretOrId: string, act: Act): Promise<ApiToken | undefined>;
}

/** A name travels in the `kid` of tokens that are signed with the key. */
const mostNameBytes = 128;
const mostAllowedIps = 256;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const controls = /[\u0000-\u001f\u007f]/;

export function createApiTokens(deps: {
  readonly store: TokenStore & Pick<AccountStore, "findKey">;
  readonly dataKeys: DataKeys;
  readonly secrets: AccountSecrets;
}): ApiTokens {
  const { store } = deps;

  async function keyOf(account: AccountId, secretOrId: string): Promise<KeyId | undefined> {
    if (!looksLikeApiKey(secretOrId)) return secretOrId as KeyId;
    const row = await store.findKey(lookupOf(deps.secrets, secretOrId));
    return row?.account.account === account ? row.key : undefined;
  }

  return {
    async create(account, wish, act) {
      checkName(wish.name);
      checkAllowedIps(wish.allowedIps);
      const dek = await deps.dataKeys.of(account);
      if (!dek) throw new InvalidApiKey();
      const key = randomId<"key">(16);
      const secret = makeApiKey();
      const made = await store.createKey(
        account,
        {
          key,
          name: wish.name,
          lookup: lookupOf(deps.secrets, secret),
          ciphertext: sealApiKey(dek, secret, account, key),
          fragment: fragmentOf(secret),
          allowedIps: wish.allowedIps,
        },
        act,
      );
      if (made === "name_taken") throw new KeyNameTaken(wish.name);
      if (made === "account_gone") throw new InvalidApiKey();
      return { ...made, token: secret };
    },

    list: async (account) => (await store.keys(account)).map(masked),

    async get(account, secretOrId) {
      const key = await keyOf(account, secretOrId);
      const record = key && (await store.keyRecord(account, key));
      if (!record) return undefined;
      return looksLikeApiKey(secretOrId) ? { ...record, token: secretOrId } : masked(record);
    },

    async setAllowedIps(caller, secretOrId, allowedIps, act) {
      checkAllowedIps(allowedIps);
      const key = await keyOf(caller.account, secretOrId);
      if (!key) return undefined;
      if (key === caller.key && addressTest(allowedIps)?.(act.ip) === false) throw new ShutsOutCaller(act.ip);
      const record = await store.setAllowedIps(caller.account, key, allowedIps, act);
      return record && masked(record);
    },

    async revoke(account, secretOrId, act) {
      const key = await keyOf(account, secretOrId);
      const record = key && (await store.revokeKey(account, key, act));
      return record ? masked(record) : undefined;
    },
  };
}

const masked = (record: KeyRecord): ApiToken => ({ ...record, token: `stk_********${record.fragment}` });

function checkName(name: string): void {
  if (name.trim() === "" || Buffer.byteLength(name) > mostNameBytes || controls.test(name) || !name.isWellFormed())
    throw new BadKeyName(mostNameBytes);
}

function checkAllowedIps(allowedIps: readonly string[] | null): void {
  if (allowedIps === null) return;
  if (allowedIps.length === 0 || allowedIps.length > mostAllowedIps)
    throw new BadAllowedIps(`Name 1 to ${mostAllowedIps} addresses or blocks, or null for anywhere.`);
  const bad = badAddress(allowedIps);
  if (bad !== undefined)
    throw new BadAllowedIps(`\`${bad.slice(0, 60)}\` is neither an IP address nor a CIDR block such as 10.0.0.0/8.`);
}
