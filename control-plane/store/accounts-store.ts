import { type Kysely, sql } from "kysely";
import { type AccountId, accountBudget, type KeyId } from "../../proto/ids.ts";
import type { AccountStore, CreateOutcome, NewAccount, SealedKey } from "../accounts/store.ts";
import { isNameTaken } from "./account-rows.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { asking, inTransaction, uniqueViolation } from "./database.ts";
import { isRetired } from "./kek-store.ts";
import { accountColumns, accountOf, keyOf, liveKeyRows, liveKeys, signingKeyOf, signingKeyRows } from "./key-rows.ts";
import { writeLedger } from "./ledger-rows.ts";
import type { Database } from "./schema.ts";

/** Two first starts at once must make one account. */
const firstAccountLock = 7_205_002;

export function createAccountStore(db: Kysely<Database>): AccountStore {
  const sealedKeys = () =>
    liveKeys(db)
      .select(["account.account_id", "token_id", "wrapped_dek", "ciphertext", "lookup"])
      .orderBy("api_key.created_at");

  return {
    hasAccounts: () => asking(async () => (await countAccounts(db)) > 0),

    create: (wish, onlyFirst) =>
      asking(async () => {
        try {
          return await inTransaction(db, async (trx): Promise<CreateOutcome> => {
            if (onlyFirst) {
              await sql`select pg_advisory_xact_lock(${sql.lit(firstAccountLock)})`.execute(trx);
              if ((await countAccounts(trx)) > 0) return "not_empty";
            }
            if (await isRetired(trx, wish.kekVersion)) return "kek_retired";
            await insertAccount(trx, wish);
            await announce(trx, "account", wish.account);
            await announce(trx, "key", wish.key.key);
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
          await liveKeyRows(db)
            .where("token_id", "=", key)
            .where("account.account_id", "=", account)
            .executeTakeFirst(),
        ),
      ),

    findAnyOwnKey: (account, named) =>
      asking(async () => {
        const ofAccount = db.selectFrom("api_key").select("token_id").where("account_id", "=", account);
        const row = await ("key" in named
          ? ofAccount.where("token_id", "=", named.key)
          : ofAccount.where("lookup", "=", named.lookup)
        ).executeTakeFirst();
        return row?.token_id as KeyId | undefined;
      }),

    findSigningKey: (account, name) =>
      asking(async () =>
        signingKeyOf(
          await signingKeyRows(db)
            .where("account.account_id", "=", account)
            .where("api_key.name", "=", name)
            .executeTakeFirst(),
        ),
      ),

    findAccount: (account) =>
      asking(async () => {
        const row = await db
          .selectFrom("account")
          .select(accountColumns)
          .where("account_id", "=", account)
          .where("deleted_at", "is", null)
          .executeTakeFirst();
        return row && accountOf(row);
      }),

    anySealedKey: () => asking(async () => sealedOf(await sealedKeys().executeTakeFirst())),

    firstAdminKey: (name) =>
      asking(async () => {
        const oldest = db
          .selectFrom("account as first")
          .select("first.account_id")
          .where("first.is_admin", "=", true)
          .orderBy("first.created_at")
          .limit(1);
        return sealedOf(
          await sealedKeys()
            .where("account.account_id", "=", oldest)
            .where("api_key.name", "=", name)
            .executeTakeFirst(),
        );
      }),

    wrappedDek: (account) =>
      asking(async () => {
        const row = await db
          .selectFrom("account")
          .select("wrapped_dek")
          .where("account_id", "=", account)
          .executeTakeFirst();
        return row?.wrapped_dek;
      }),

    kekVersions: () =>
      asking(async () => {
        const rows = await db.selectFrom("account").select("kek_version").distinct().execute();
        return rows.map((row) => row.kek_version);
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
  return (await db.selectFrom("account").select("account_id").limit(1).execute()).length;
}

async function insertAccount(trx: Parameters<typeof announce>[0], wish: NewAccount): Promise<void> {
  await trx
    .insertInto("account")
    .values({
      account_id: wish.account,
      email: wish.email,
      display_name: wish.displayName,
      is_admin: wish.isAdmin,
      wrapped_dek: wish.wrappedDek,
      kek_version: wish.kekVersion,
      email_verified: wish.passwordHash === undefined,
    })
    .execute();
  if (wish.passwordHash !== undefined)
    await trx.insertInto("password").values({ account_id: wish.account, hash: wish.passwordHash }).execute();
  await trx
    .insertInto("api_key")
    .values({
      token_id: wish.key.key,
      account_id: wish.account,
      name: wish.key.name,
      lookup: wish.key.lookup,
      ciphertext: wish.key.ciphertext,
      fragment: wish.key.fragment,
    })
    .execute();
  await trx
    .insertInto("budget")
    .values({ budget_id: accountBudget(wish.account), scope: "account", account_id: wish.account, lim: wish.credit })
    .execute();
  await writeLedger(trx, [
    { from: "platform_revenue", to: "customer_available", amount: wish.credit, kind: "credit", account: wish.account },
  ]);
  await writeAudit(trx, {
    actor: wish.act.by,
    action: "account.create",
    subject: wish.account,
    account: wish.account,
    ip: wish.act.ip,
    after: {
      email: wish.email,
      display_name: wish.displayName,
      is_admin: wish.isAdmin,
      credit_nano_usd: wish.credit.toString(),
    },
    note: wish.act.note,
  });
}

function sealedOf(
  row: { account_id: string; token_id: string; wrapped_dek: Buffer; ciphertext: Buffer; lookup: Buffer } | undefined,
): SealedKey | undefined {
  return (
    row && {
      account: row.account_id as AccountId,
      key: row.token_id as KeyId,
      wrappedDek: row.wrapped_dek,
      ciphertext: row.ciphertext,
      lookup: row.lookup,
    }
  );
}
