import { sql } from "kysely";
import { accountBudget } from "../../../proto/ids.ts";
import type { AccountStore, CreateOutcome, NewAccount } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { isRetired } from "../core/kek-store.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { writeLedger } from "../money/ledger-rows.ts";
import { accountColumns, isNameTaken, keyOf, liveKeyRows, liveKeys, signingKeyRows } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";
import { insertOwner, ownerRefusal } from "./member-rows.ts";

/** Two concurrent first starts must create one account. */
const firstAccountLock = 7_205_002;

export function createAccountStore(db: Db): AccountStore {
  const sealedKeys = () =>
    liveKeys(db)
      .select(["account.accountId as account", "tokenId as key", "wrappedDek", "ciphertext", "lookup"])
      .orderBy("apiKey.createdAt");

  return asked<AccountStore>({
    hasAccounts: () => hasAccounts(db),

    async create(request, onlyFirst) {
      try {
        return await inTransaction(db, async (trx): Promise<CreateOutcome> => {
          if (onlyFirst) {
            await sql`select pg_advisory_xact_lock(${sql.lit(firstAccountLock)})`.execute(trx);
            if (await hasAccounts(trx)) return "not_empty";
          }
          if (await isRetired(trx, request.kekVersion)) return "kek_retired";
          const refusal = request.owner && (await ownerRefusal(trx, request.owner.person));
          if (refusal) return refusal;
          await insertAccount(trx, request);
          await announce(trx, "account", request.account);
          if (request.key) await announce(trx, "key", request.key.key);
          return "created";
        });
      } catch (error) {
        const constraint = uniqueViolation(error);
        if (constraint === "account_pkey") return "id_taken";
        if (constraint === "account_email_key") return "email_taken";
        if (isNameTaken(constraint) || constraint === "account_team_name_key") return "name_taken";
        throw error;
      }
    },

    async findKey(lookup) {
      const row = await liveKeyRows(db).where("lookup", "=", lookup).executeTakeFirst();
      return row && keyOf(row);
    },

    async findOwnKey(account, key) {
      const row = await liveKeyRows(db)
        .where("tokenId", "=", key)
        .where("account.accountId", "=", account)
        .executeTakeFirst();
      return row && keyOf(row);
    },

    async findAnyOwnKey(account, named) {
      const ofAccount = db.selectFrom("apiKey").select("tokenId").where("accountId", "=", account);
      const row = await ("key" in named
        ? ofAccount.where("tokenId", "=", named.key)
        : ofAccount.where("lookup", "=", named.lookup)
      ).executeTakeFirst();
      return row?.tokenId;
    },

    async findSigningKey(account, name) {
      const row = await signingKeyRows(db)
        .where("account.accountId", "=", account)
        .where("apiKey.name", "=", name)
        .executeTakeFirst();
      return row && keyOf(row);
    },

    findAccount: (account) =>
      db
        .selectFrom("account")
        .select(accountColumns)
        .where("accountId", "=", account)
        .where("deletedAt", "is", null)
        .executeTakeFirst(),

    anySealedKey: () => sealedKeys().executeTakeFirst(),

    firstAdminKey: (name) =>
      sealedKeys()
        .where("account.accountId", "=", (first) =>
          first
            .selectFrom("account as first")
            .select("first.accountId")
            .where("first.isAdmin", "=", true)
            .orderBy("first.createdAt")
            .limit(1),
        )
        .where("apiKey.name", "=", name)
        .executeTakeFirst(),

    async wrappedDek(account) {
      const row = await db
        .selectFrom("account")
        .select("wrappedDek")
        .where("accountId", "=", account)
        .executeTakeFirst();
      return row?.wrappedDek;
    },

    async kekVersions() {
      const rows = await db.selectFrom("account").select("kekVersion").distinct().execute();
      return rows.map((row) => row.kekVersion);
    },

    async keysUsed(lastUsed) {
      await sql`
        update api_key set last_used_at = greatest(api_key.last_used_at, u.at)
        from unnest(${[...lastUsed.keys()]}::text[], ${[...lastUsed.values()]}::timestamptz[]) as u (token_id, at)
        where api_key.token_id = u.token_id`.execute(db);
    },
  });
}

async function hasAccounts(db: Db): Promise<boolean> {
  return (await db.selectFrom("account").select("accountId").limit(1).execute()).length > 0;
}

async function insertAccount(trx: Trx, request: NewAccount): Promise<void> {
  await trx
    .insertInto("account")
    .values({
      accountId: request.account,
      email: request.email,
      displayName: request.displayName,
      isAdmin: request.isAdmin,
      wrappedDek: request.wrappedDek,
      kekVersion: request.kekVersion,
      emailVerified: request.passwordHash === undefined && !request.owner,
      wasVerified: request.passwordHash === undefined && !request.owner,
      ...(request.owner && { isTeamAccount: true, teamDisplayName: request.displayName }),
    })
    .execute();
  if (request.owner) await insertOwner(trx, request.account, request.owner);
  if (request.passwordHash !== undefined)
    await trx.insertInto("password").values({ accountId: request.account, hash: request.passwordHash }).execute();
  if (request.identity) {
    const { id, provider, subject } = request.identity;
    await trx
      .insertInto("identity")
      .values({
        identityId: id,
        providerId: provider,
        subject,
        accountId: request.account,
        email: request.email,
        isManaged: true,
      })
      .execute();
  }
  if (request.key) {
    const { key, ...secret } = request.key;
    await trx
      .insertInto("apiKey")
      .values({ tokenId: key, accountId: request.account, ...secret })
      .execute();
  }
  await trx
    .insertInto("budget")
    .values({
      budgetId: accountBudget(request.account),
      scope: "account",
      accountId: request.account,
      lim: request.credit,
    })
    .execute();
  await writeLedger(trx, [
    {
      from: "platform_revenue",
      to: "customer_available",
      amount: request.credit,
      kind: "credit",
      account: request.account,
    },
  ]);
  await auditAct(trx, request.act, {
    action: "account.create",
    subject: request.account,
    account: request.account,
    after: {
      email: request.email,
      display_name: request.displayName,
      is_admin: request.isAdmin,
      credit_nano_usd: request.credit.toString(),
    },
  });
}
