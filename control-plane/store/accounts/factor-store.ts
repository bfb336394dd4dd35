import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { CodeUse, FactorStore, NewFactor, SessionFactor } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow, rowCount } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { lockAccount, mustHaveFactor } from "./account-rows.ts";
import { auditAct, auditOwn } from "./audit-rows.ts";

/** Columns of a FactorRecord. */
const recordColumns = [
  "factorId as id",
  "kind",
  "name",
  epochMs("createdAt").as("createdAtMs"),
  epochMs<null>("lastUsedAt").as("lastUsedAtMs"),
] as const;

export function createFactorStore(db: Db): FactorStore {
  return asked<FactorStore>({
    ...readMethods(db),
    ...useMethods(db),
    ...changeMethods(db),
    ...policyMethods(db),

    noteSignIn: (actor, action, what) => inTransaction(db, (trx) => auditOwn(trx, actor, action, { after: { what } })),
  });
}

/** Reads of the factors of accounts. */
function readMethods(db: Db) {
  const passkeys = () =>
    db
      .selectFrom("secondFactor")
      .innerJoin("account", "account.accountId", "secondFactor.accountId")
      .select(["factorId as id", "secondFactor.accountId as account", "transports", "counter as signCount"])
      // A check of the table: a passkey has both.
      .select((of) => [
        of.ref("credentialId").$notNull().as("credentialId"),
        of.ref("publicKey").$notNull().as("publicKey"),
      ])
      .where("kind", "=", "passkey")
      .where("deletedAt", "is", null);
  return {
    async overview(account) {
      const owner = await db
        .selectFrom("account")
        .leftJoin("password", "password.accountId", "account.accountId")
        .select([
          "email",
          "displayName",
          sql<boolean>`hash is not null`.as("hasPassword"),
          mustHaveFactor.as("isRequired"),
          sql<number>`(select count(*)::int from recovery_code c where c.account_id = account.account_id)`.as(
            "recoveryCodeCount",
          ),
        ])
        .where("account.accountId", "=", account)
        .where("deletedAt", "is", null)
        .executeTakeFirst();
      if (!owner) return undefined;
      const factors = await db
        .selectFrom("secondFactor")
        .select(recordColumns)
        .where("accountId", "=", account)
        .orderBy("createdAt")
        .execute();
      return { ...owner, factors };
    },

    async totpOf(account) {
      const row = await db
        .selectFrom("secondFactor")
        .select(["factorId", "sealed"])
        .where("accountId", "=", account)
        .where("kind", "=", "totp")
        .executeTakeFirst();
      return row?.sealed ? { id: row.factorId, sealed: row.sealed } : undefined;
    },

    passkeysOf: (account) => passkeys().where("secondFactor.accountId", "=", account).execute(),

    passkey: (credentialId) => passkeys().where("credentialId", "=", credentialId).executeTakeFirst(),
  } satisfies Partial<FactorStore>;
}

/** Uses of factors and recovery codes, each at most once. */
const useMethods = (db: Db) =>
  ({
    useTotp: (id, step, challenge, atMs) =>
      useWithChallenge(db, challenge, atMs, async (trx) => {
        return trx
          .updateTable("secondFactor")
          .set({ counter: step, lastUsedAt: new Date(atMs) })
          .where("factorId", "=", id)
          .where("counter", "<", step)
          .$call(affectsRow);
      }),

    usePasskey: (id, seenCount, newCount, atMs) =>
      db
        .updateTable("secondFactor")
        .set({ counter: newCount, lastUsedAt: new Date(atMs) })
        .where("factorId", "=", id)
        .where("counter", "=", seenCount)
        .$call(affectsRow),

    useRecoveryCode: (actor, hash, challenge, atMs) =>
      useWithChallenge(db, challenge, atMs, async (trx) => {
        const { numDeletedRows } = await trx
          .deleteFrom("recoveryCode")
          .where("accountId", "=", actor.account)
          .where("hash", "=", hash)
          .executeTakeFirst();
        if (numDeletedRows > 0n) await auditOwn(trx, actor, "recovery_code.use");
        return numDeletedRows > 0n;
      }),
  }) satisfies Partial<FactorStore>;

/** Changes of factors and recovery codes. */
const changeMethods = (db: Db) =>
  ({
    async addFactor(actor, factor, { session, recoveryCodes, maxFactors }) {
      try {
        return await inTransaction(db, async (trx) => {
          if (!(await lockAccount(trx, actor.account, "forUpdate"))) return "gone";
          const count = await countOf(trx, actor.account, "secondFactor");
          if (count >= maxFactors) return "full";
          await trx.insertInto("secondFactor").values(rowOf(actor.account, factor)).execute();
          await trx
            .updateTable("loginSession")
            .set({ factors: sql<SessionFactor[]>`array_append(array_remove(factors, ${factor.kind}), ${factor.kind})` })
            .where("lookup", "=", session)
            .execute();
          const hasNewCodes = (await countOf(trx, actor.account, "recoveryCode")) === 0;
          if (hasNewCodes) await insertCodes(trx, actor.account, recoveryCodes);
          await auditOwn(trx, actor, "second_factor.add", {
            after: { id: factor.id, kind: factor.kind, name: factor.name },
          });
          // Older sessions had no second factor: they must sign in again.
          if (count === 0) await endSessions(trx, actor.account, session);
          return { hasNewCodes };
        });
      } catch (error) {
        if (uniqueViolation(error) !== undefined) return "taken";
        throw error;
      }
    },

    renameFactor: (actor, id, name) =>
      inTransaction(db, async (trx) => {
        const old = await trx
          .selectFrom("secondFactor")
          .select(recordColumns)
          .where("accountId", "=", actor.account)
          .where("factorId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!old) return undefined;
        await trx.updateTable("secondFactor").set({ name }).where("factorId", "=", id).execute();
        await auditOwn(trx, actor, "second_factor.rename", {
          before: { name: old.name },
          after: { id, kind: old.kind, name },
        });
        return { ...old, name };
      }),

    removeFactor: (actor, id) =>
      inTransaction(db, async (trx) => {
        await lockAccount(trx, actor.account, "forUpdate");
        const row = await trx
          .deleteFrom("secondFactor")
          .where("accountId", "=", actor.account)
          .where("factorId", "=", id)
          .returning(recordColumns)
          .executeTakeFirst();
        if (!row) return undefined;
        if ((await countOf(trx, actor.account, "secondFactor")) === 0)
          await trx.deleteFrom("recoveryCode").where("accountId", "=", actor.account).execute();
        await auditOwn(trx, actor, "second_factor.remove", { after: { id, kind: row.kind, name: row.name } });
        return row;
      }),

    setRecoveryCodes: (actor, hashes) =>
      inTransaction(db, async (trx) => {
        await lockAccount(trx, actor.account, "forUpdate");
        if ((await countOf(trx, actor.account, "secondFactor")) === 0) return false;
        await trx.deleteFrom("recoveryCode").where("accountId", "=", actor.account).execute();
        await insertCodes(trx, actor.account, hashes);
        await auditOwn(trx, actor, "recovery_code.renew");
        return true;
      }),

    resetFactors: (account, act) =>
      inTransaction(db, async (trx) => {
        if (!(await lockAccount(trx, account, "forUpdate"))) return undefined;
        const removed = await trx.deleteFrom("secondFactor").where("accountId", "=", account).executeTakeFirst();
        await trx.deleteFrom("recoveryCode").where("accountId", "=", account).execute();
        const count = Number(removed.numDeletedRows);
        await auditAct(trx, act, {
          action: "second_factor.reset",
          subject: account,
          account,
          after: { removed: count },
        });
        await endSessions(trx, account, undefined);
        return count;
      }),
  }) satisfies Partial<FactorStore>;

/** Accounts that must have a second factor. */
const policyMethods = (db: Db) =>
  ({
    async policy() {
      const row = await db.selectFrom("signInPolicy").select("secondFactor").executeTakeFirst();
      return row?.secondFactor ?? "none";
    },

    setPolicy: (requiredFor, act) =>
      inTransaction(db, async (trx) => {
        const row = await trx.selectFrom("signInPolicy").select("secondFactor").forUpdate().executeTakeFirst();
        const before = row?.secondFactor ?? "none";
        await trx
          .insertInto("signInPolicy")
          .values({ secondFactor: requiredFor })
          .onConflict((at) => at.column("onlyRow").doUpdateSet({ secondFactor: requiredFor }))
          .execute();
        await auditAct(trx, act, {
          action: "sign_in_policy.set",
          subject: "sign_in_policy",
          account: null,
          before: { second_factor: before },
          after: { second_factor: requiredFor },
        });
      }),
  }) satisfies Partial<FactorStore>;

/** Deletes the challenge if `use` succeeds. The row lock makes a second code for the same challenge wait, then find it gone. */
const useWithChallenge = (
  db: Db,
  challenge: Buffer,
  atMs: number,
  use: (trx: Trx) => Promise<boolean>,
): Promise<CodeUse> =>
  inTransaction(db, async (trx) => {
    const valid = await trx
      .selectFrom("signInChallenge")
      .select("lookup")
      .where("lookup", "=", challenge)
      .where("expiresAt", ">", new Date(atMs))
      .forUpdate()
      .executeTakeFirst();
    if (!valid) return "expired";
    if (!(await use(trx))) return "refused";
    await trx.deleteFrom("signInChallenge").where("lookup", "=", challenge).execute();
    return "used";
  });

async function countOf(trx: Trx, account: AccountId, table: "secondFactor" | "recoveryCode"): Promise<number> {
  const { count } = await trx
    .selectFrom(table)
    .select(rowCount)
    .where("accountId", "=", account)
    .executeTakeFirstOrThrow();
  return count;
}

async function insertCodes(trx: Trx, account: AccountId, hashes: readonly Buffer[]): Promise<void> {
  if (hashes.length === 0) return;
  const rows = hashes.map((hash) => ({ accountId: account, hash }));
  await trx.insertInto("recoveryCode").values(rows).execute();
}

/** Call it last: it announces the end. */
async function endSessions(trx: Trx, account: AccountId, keep: Buffer | undefined): Promise<void> {
  const { numDeletedRows } = await trx
    .deleteFrom("loginSession")
    .where("accountId", "=", account)
    .$if(keep !== undefined, (others) => others.where("lookup", "<>", keep as Buffer))
    .executeTakeFirst();
  if (numDeletedRows > 0n) await announce(trx, "session", account);
}

function rowOf(account: AccountId, factor: NewFactor) {
  const { id, kind, name } = factor;
  const shared = { factorId: id, accountId: account, kind, name };
  if (factor.kind === "totp") return { ...shared, sealed: factor.sealed, counter: factor.step };
  return {
    ...shared,
    credentialId: factor.credentialId,
    publicKey: factor.publicKey,
    transports: [...factor.transports],
    counter: factor.signCount,
  };
}
