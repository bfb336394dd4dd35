import { randomInt } from "node:crypto";
import { type AccountId, randomId } from "../../proto/ids.ts";
import { fromUsd, type NanoUsd } from "../../proto/money.ts";
import { type Act, bySystem } from "./act.ts";
import { fragmentOf, makeApiKey } from "./api-key.ts";
import {
  type AccountSecrets,
  lookupOf,
  makeDek,
  newestKek,
  openApiKey,
  sealApiKey,
  unwrapDek,
  wrapDek,
} from "./envelope.ts";
import { AccountNameTaken } from "./errors.ts";
import { checkDisplayName } from "./profile.ts";
import type { AccountStore, CreateOutcome } from "./store.ts";

export interface AccountWish {
  readonly email: string;
  /** 1 to 39 letters and digits, single hyphens between them. */
  readonly displayName: string;
  readonly creditNanoUsd: NanoUsd;
  readonly isAdmin: boolean;
  /** Who makes it; Stoker itself without. */
  readonly act?: Act;
  /** Of somebody who makes the account himself: nobody has vouched for the address. */
  readonly ownPassword?: { readonly hash: string; readonly ip: string };
}

export interface CreatedAccount {
  readonly account: AccountId;
  /** The database keeps it sealed. */
  readonly apiKey: string;
}

export interface CreateAccount {
  /** Throws AccountNameTaken, BadDisplayName. */
  createAccount(wish: AccountWish): Promise<CreatedAccount>;
  /** On an empty installation the operator's account, with its key; otherwise undefined. Several replicas may call it. */
  ensureFirstAccount(): Promise<CreatedAccount | undefined>;
  /** The key that the first account was made with, opened again; undefined once it is revoked. */
  recoverFirstKey(): Promise<CreatedAccount | undefined>;
}

const firstAccount: AccountWish = {
  email: "admin@localhost",
  displayName: "admin",
  creditNanoUsd: fromUsd(1000),
  isAdmin: true,
};
/** Of the key every account is made with. */
const firstKeyName = "auto";
/** Random ids of 13 digits meet once in a while. */
const idAttempts = 5;

export function createAccounts(deps: {
  readonly store: AccountStore;
  readonly secrets: AccountSecrets;
}): CreateAccount {
  async function create(wish: AccountWish, onlyFirst: boolean): Promise<CreatedAccount | undefined> {
    checkDisplayName(wish.displayName);
    for (let attempt = 1; attempt <= idAttempts; attempt++) {
      const account = makeAccountId();
      const key = randomId<"key">(16);
      const apiKey = makeApiKey();
      const dek = makeDek();
      const kek = newestKek(deps.secrets);
      const outcome = await deps.store.create(
        {
          account,
          email: wish.email,
          displayName: wish.displayName,
          isAdmin: wish.isAdmin,
          wrappedDek: wrapDek(kek, dek, account),
          kekVersion: kek.version,
          credit: wish.creditNanoUsd,
          act: wish.act ?? actOf(wish, account),
          passwordHash: wish.ownPassword?.hash,
          key: {
            key,
            name: firstKeyName,
            lookup: lookupOf(deps.secrets, apiKey),
            ciphertext: sealApiKey(dek, apiKey, account, key),
            fragment: fragmentOf(apiKey),
          },
        },
        onlyFirst,
      );
      if (outcome === "created") return { account, apiKey };
      if (outcome === "not_empty") return undefined;
      if (outcome === "kek_retired") {
        if (deps.secrets.reread?.()) continue;
        throw new Error("the key-encryption key was rotated, and its new file is not in this secrets folder");
      }
      if (outcome !== "id_taken") throw taken(outcome);
    }
    throw new Error("no free account id was found");
  }

  return {
    async createAccount(wish) {
      return (await create(wish, false)) as CreatedAccount;
    },
    ensureFirstAccount: () => create(firstAccount, true),
    async recoverFirstKey() {
      const sealed = await deps.store.firstAdminKey(firstKeyName);
      if (!sealed) return undefined;
      const { account, key, ciphertext, wrappedDek } = sealed;
      return { account, apiKey: openApiKey(unwrapDek(deps.secrets, wrappedDek, account), ciphertext, account, key) };
    },
  };
}

const actOf = ({ ownPassword }: AccountWish, account: AccountId): Act =>
  ownPassword ? { by: account, ip: ownPassword.ip, note: "sign-up" } : bySystem("first account of the installation");

/** `u:` and 13 digits, the first not 0. */
function makeAccountId(): AccountId {
  return `u:${randomInt(1, 10)}${String(randomInt(0, 10 ** 12)).padStart(12, "0")}` as AccountId;
}

function taken(
  outcome: Exclude<CreateOutcome, "created" | "not_empty" | "id_taken" | "kek_retired">,
): AccountNameTaken {
  return outcome === "email_taken"
    ? new AccountNameTaken("An account with this e-mail address exists. Use another address.", { param: "email" })
    : new AccountNameTaken("This display name is taken. Choose another one.", { param: "display_name" });
}
