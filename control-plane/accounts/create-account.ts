import { randomInt } from "node:crypto";
import { type AccountId, type KeyId, randomId } from "../../proto/ids.ts";
import { fromUsd, type NanoUsd, nano } from "../../proto/money.ts";
import { type Act, bySystem } from "../act.ts";
import type { ServiceError } from "../service-error.ts";
import { fragmentOf, looksLikeApiKey, makeApiKey } from "./api-key.ts";
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
import { accountGone, accountNameTaken } from "./errors.ts";
import { notAPerson, tooManyOrganizations } from "./member-errors.ts";
import { memberLimits } from "./member-store.ts";
import { checkDisplayName } from "./profile.ts";
import type { AccountStore, CreateOutcome, NewIdentity } from "./store.ts";

export interface AccountParams {
  readonly email: string;
  /** 1 to 39 letters and digits, single hyphens between them. */
  readonly displayName: string;
  readonly creditNanoUsd: NanoUsd;
  readonly isAdmin: boolean;
  /** The creator; default: Stoker itself. */
  readonly act?: Act;
  /** Set when people create their own account: the address is not verified. */
  readonly ownPassword?: { readonly hash: string; readonly ip: string };
  /** Set when an identity provider introduces the person. */
  readonly identity?: NewIdentity;
}

export interface OrganizationParams {
  /** As of an account. */
  readonly displayName: string;
  readonly owner: AccountId;
  readonly act: Act;
}

export interface CreatedAccount {
  readonly account: AccountId;
  /** The database keeps it sealed. */
  readonly apiKey: string;
}

const firstAccount: AccountParams = {
  email: "admin@localhost",
  displayName: "admin",
  creditNanoUsd: fromUsd(1000),
  isAdmin: true,
};
/** Name of the key every account is created with. */
const firstKeyName = "auto";
/** Random ids of 13 digits may collide. */
const idAttempts = 5;

export function createAccounts(deps: { readonly store: AccountStore; readonly secrets: AccountSecrets }) {
  async function create(
    request: AccountParams & { readonly owner?: AccountId },
    onlyFirst: boolean,
  ): Promise<CreatedAccount | undefined> {
    checkDisplayName(request.displayName);
    for (let attempt = 1; attempt <= idAttempts; attempt++) {
      const account = makeAccountId();
      const { owner } = request;
      const key = randomId<"key">(16);
      const apiKey = makeApiKey();
      const dek = makeDek();
      const kek = newestKek(deps.secrets);
      const outcome = await deps.store.create(
        {
          account,
          // Nobody signs in to an organisation: its id, which is no address, stands for one.
          email: owner === undefined ? request.email : account,
          displayName: request.displayName,
          isAdmin: request.isAdmin,
          wrappedDek: wrapDek(kek, dek, account),
          kekVersion: kek.version,
          credit: request.creditNanoUsd,
          act: request.act ?? actOf(request, account),
          passwordHash: request.ownPassword?.hash,
          identity: request.identity,
          owner: owner && { member: randomId<"member">(16), person: owner },
          key:
            owner === undefined
              ? {
                  key,
                  name: firstKeyName,
                  lookup: lookupOf(deps.secrets, apiKey),
                  ciphertext: sealApiKey(dek, apiKey, account, key),
                  fragment: fragmentOf(apiKey),
                }
              : undefined,
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
    throw new Error("could not find a free account id");
  }

  return {
    /** Throws accountNameTaken, badDisplayName. */
    async createAccount(request: AccountParams): Promise<CreatedAccount> {
      return (await create(request, false)) as CreatedAccount;
    },
    /** Throws accountNameTaken, badDisplayName, accountGone, notAPerson, tooManyOrganizations. */
    async createOrganization({ displayName, owner, act }: OrganizationParams): Promise<AccountId> {
      const request = { email: "", displayName, creditNanoUsd: nano(0n), isAdmin: false, act, owner };
      return ((await create(request, false)) as CreatedAccount).account;
    },
    /**
     * Creates the operator's account with its key on an empty installation; otherwise returns undefined. Several replicas may
     * call it.
     */
    ensureFirstAccount: (): Promise<CreatedAccount | undefined> => create(firstAccount, true),
    /** Returns the key created with the first account; undefined once it is revoked. */
    async recoverFirstKey(): Promise<CreatedAccount | undefined> {
      const sealed = await deps.store.firstAdminKey(firstKeyName);
      if (!sealed) return undefined;
      const { account, key, ciphertext, wrappedDek } = sealed;
      return { account, apiKey: openApiKey(unwrapDek(deps.secrets, wrappedDek, account), ciphertext, account, key) };
    },
    /**
     * Returns a key of the account by its secret or id, also a revoked one, which only gives access to its usage. Undefined
     * for any other key.
     */
    findOwnKey(account: AccountId, secretOrId: string): Promise<KeyId | undefined> {
      const named = looksLikeApiKey(secretOrId)
        ? { lookup: lookupOf(deps.secrets, secretOrId) }
        : { key: secretOrId as KeyId };
      return deps.store.findAnyOwnKey(account, named);
    },
  };
}

export type CreateAccount = ReturnType<typeof createAccounts>;

const actOf = ({ ownPassword }: AccountParams, account: AccountId): Act =>
  ownPassword ? { by: account, ip: ownPassword.ip, note: "sign-up" } : bySystem("first account of the installation");

/** `u:` and 13 digits, the first not 0. */
function makeAccountId(): AccountId {
  return `u:${randomInt(1, 10)}${String(randomInt(0, 10 ** 12)).padStart(12, "0")}` as AccountId;
}

function taken(outcome: Exclude<CreateOutcome, "created" | "not_empty" | "id_taken" | "kek_retired">): ServiceError {
  if (outcome === "owner_gone") return accountGone();
  if (outcome === "not_a_person") return notAPerson();
  if (outcome === "too_many_organizations") return tooManyOrganizations(memberLimits.organizations);
  return outcome === "email_taken"
    ? accountNameTaken("An account with this e-mail address exists. Use another address.", { param: "email" })
    : accountNameTaken("This display name is taken. Choose another one.", { param: "display_name" });
}
