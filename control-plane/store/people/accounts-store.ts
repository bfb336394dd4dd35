import { type Kysely, sql } from "kysely";
import { type AccountId, accountBudget, type KeyId } from "../../../proto/ids.ts";
import type { AccountStore, CreateOutcome, NewAccount, SealedKey } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { isRetired } from "../core/kek-store.ts";
import { asking } from "../core/outage.ts";
import type { Database } from "../core/schema.ts";
import { writeLedger } from "../money/ledger-rows.ts";
import { isNameTaken } from "./account-rows.ts";
import { writeAudit } from "./audit-rows.ts";
import { accountColumns, accountOf, keyOf, liveKeyRows, liveKeys, signingKeyOf, signingKeyRows } from "./key-rows.ts";

/** Two first starts at once must make one account. */
const firstAccountLock = 7_205_002;

export function createAccountStore(db: Kysely<Database>): AccountStore {
  const sealedKeys = () =>
    liveKeys(db)
      .select(["account.accountId", "tokenId", "wrappedDek", "ciphertext", "lookup"])
      .orderBy("apiKey.createdAt");

  return {
    hasAccounts: () => asking(async () => (await countAccounts(db)) > 0),

    create: (request, onlyFirst) =>
      asking(async () => {
        try {
          return await inTransaction(db, async (trx): Promise<CreateOutcome> => {
            if (onlyFirst) {
              await sql`select pg_advisory_xact_lock(${sql.lit(firstAccountLock)})`.execute(trx);
              if ((await countAccounts(trx)) > 0) return "not_empty";
            }
            if (await isRetired(trx, request.kekVersion)) return "kek_retired";
            await insertAccount(trx, request);
            await announce(trx, "account", request.account);
            await announce(trx, "key", request.key.key);
            return "created";
          });
        } catch (error) {
          const constraint = uniqueViolation(error);
          if (constraint === "account_pkey") return "id_taken";
          if (constraint === "account_email_key") return "email_taken";
          if (isNameTaken(constraint)) return "name_taken";
          throw error;
        }
      }),

    findKey: (lookup) =>
      asking(async () => keyOf(await liveKeyRows(db).where("lookup", "=", lookup).executeTakeFirst())),

    findOwnKey: (account, key) =>
      asking(async () =>
        keyOf(
          await liveKeyRows(db).where("tokenId", "=", key).where("account.accountId", "=", account).executeTakeFirst(),
        ),
      ),

    findAnyOwnKey: (account, named) =>
      asking(async () => {
        const ofAccount = db.selectFrom("apiKey").select("tokenId").where("accountId", "=", account);
        const row = await ("key" in named
          ? ofAccount.where("tokenId", "=", named.key)
          : ofAccount.where("lookup", "=", named.lookup)
        ).executeTakeFirst();
        return row?.tokenId as KeyId | undefined;
      }),

    findSigningKey: (account, name) =>
      asking(async () =>
        signingKeyOf(
          await signingKeyRows(db)
            .where("account.accountId", "=", account)
            .where("apiKey.name", "=", name)
            .executeTakeFirst(),
        ),
      ),

    findAccount: (account) =>
      asking(async () => {
        const row = await db
          .selectFrom("account")
          .select(accountColumns)
          .where("accountId", "=", account)
          .where("deletedAt", "is", null)
          .executeTakeFirst();
        return row && accountOf(row);
      }),

    anySealedKey: () => asking(async () => sealedOf(await sealedKeys().executeTakeFirst())),

    firstAdminKey: (name) =>
      asking(async () => {
        const oldest = db
          .selectFrom("account as first")
          .select("first.accountId")
          .where("first.isAdmin", "=", true)
          .orderBy("first.createdAt")
          .limit(1);
        return sealedOf(
          await sealedKeys().where("account.accountId", "=", oldest).where("apiKey.name", "=", name).executeTakeFirst(),
        );
      }),

    wrappedDek: (account) =>
      asking(async () => {
        const row = await db
          .selectFrom("account")
          .select("wrappedDek")
          .where("accountId", "=", account)
          .executeTakeFirst();
        return row?.wrappedDek;
      }),

    kekVersions: () =>
      asking(async () => {
        const rows = await db.selectFrom("account").select("kekVersion").distinct().execute();
        return rows.map((row) => row.kekVersion);
      }),

    keysUsed: (lastUsed) =>
      asking(async () => {
        await sql`
          update api_key set last_used_at = greatest(api_key.last_used_at, u.at)
          from unnest(${[...lastUsed.keys()]}::text[], ${[...lastUsed.values()]}::timestamptz[]) as u (token_id, at)
          where api_key.token_id = u.token_id`.execute(db);
      }),
  };
}

async function countAccounts(db: Kysely<Database>): Promise<number> {
  return (await db.selectFrom("account").select("accountId").limit(1).execute()).length;
}

async function insertAccount(trx: Parameters<typeof announce>[0], request: NewAccount): Promise<void> {
  await trx
    .insertInto("account")
    .values({
      accountId: request.account,
      email: request.email,
      displayName: request.displayName,
      isAdmin: request.isAdmin,
      wrappedDek: request.wrappedDek,
      kekVersion: request.kekVersion,
      emailVerified: request.passwordHash === undefined,
    })
    .execute();
  if (request.passwordHash !== undefined)
    await trx.insertInto("password").values({ accountId: request.account, hash: request.passwordHash }).execute();
  await trx
    .insertInto("apiKey")
    .values({
      tokenId: request.key.key,
      accountId: request.account,
      name: request.key.name,
      lookup: request.key.lookup,
      ciphertext: request.key.ciphertext,
      fragment: request.key.fragment,
    })
    .execute();
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
  await writeAudit(trx, {
    actor: request.act.by,
    action: "account.create",
    subject: request.account,
    account: request.account,
    ip: request.act.ip,
    after: {
      email: request.email,
      display_name: request.displayName,
      is_admin: request.isAdmin,
      credit_nano_usd: request.credit.toString(),
    },
    note: request.act.note,
  });
}

function sealedOf(
  row: { accountId: string; tokenId: string; wrappedDek: Buffer; ciphertext: Buffer; lookup: Buffer } | undefined,
): SealedKey | undefined {
  return (
    row && {
      account: row.accountId as AccountId,
      key: row.tokenId as KeyId,
      wrappedDek: row.wrappedDek,
      ciphertext: row.ciphertext,
      lookup: row.lookup,
    }
  );
}
