// Counted sign-in attempts, unfinished sign-in steps, and sign-ins of the command line.
import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { AttemptStore, ChallengeStore, CliLoginStore } from "../../accounts/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow } from "../core/rows.ts";
import type { Db } from "../core/schema.ts";

const digest = (key: string): Buffer => createHash("sha256").update(key).digest();

export function createAttemptStore(db: Db): AttemptStore {
  return asked<AttemptStore>({
    async countAttempt(key, nowMs, windowMs) {
      const [now, end] = [new Date(nowMs), new Date(nowMs + windowMs)];
      const row = await db
        .insertInto("signInAttempt")
        .values({ key: digest(key), taken: 1, expiresAt: end })
        .onConflict((at) =>
          at.column("key").doUpdateSet({
            taken: sql<number>`case when sign_in_attempt.expires_at <= ${now} then 1 else sign_in_attempt.taken + 1 end`,
            expiresAt: sql<Date>`case when sign_in_attempt.expires_at <= ${now} then ${end} else sign_in_attempt.expires_at end`,
          }),
        )
        .returning(["taken", "expiresAt"])
        .executeTakeFirstOrThrow();
      return { taken: row.taken, endsAtMs: row.expiresAt.getTime() };
    },

    async returnAttempts(key, count) {
      await db
        .updateTable("signInAttempt")
        .set({ taken: sql<number>`greatest(0, taken - ${count}::integer)` })
        .where("key", "=", digest(key))
        .execute();
    },

    async forgetAttempts(key) {
      await db.deleteFrom("signInAttempt").where("key", "=", digest(key)).execute();
    },
  });
}

export function createChallengeStore(db: Db): ChallengeStore {
  return asked<ChallengeStore>({
    async putChallenge(lookup, purpose, { account, ...row }, expiresAtMs) {
      await db
        .insertInto("signInChallenge")
        .values({ lookup, purpose, accountId: account, ...row, expiresAt: new Date(expiresAtMs) })
        .execute();
    },

    challenge: (lookup, purposes, nowMs) =>
      db
        .selectFrom("signInChallenge")
        .select(["purpose", "accountId as account", "session", "challenge", "sealed", "email", "epoch"])
        .where("lookup", "=", lookup)
        .where("purpose", "in", purposes)
        .where("expiresAt", ">", new Date(nowMs))
        .executeTakeFirst(),

    takeChallenge: (lookup, nowMs) =>
      db
        .deleteFrom("signInChallenge")
        .where("lookup", "=", lookup)
        .where("expiresAt", ">", new Date(nowMs))
        .$call(affectsRow),
  });
}

export function createCliLoginStore(db: Db): CliLoginStore {
  const known = (lookup: Buffer) =>
    db.selectFrom("cliLogin").select("lookup").where("lookup", "=", lookup).executeTakeFirst();

  return asked<CliLoginStore>({
    hasCliLogin: async (lookup) => (await known(lookup)) !== undefined,

    answerCliLogin: (login) =>
      inTransaction(db, async (trx) => {
        const { numInsertedOrUpdatedRows = 0n } = await trx
          .insertInto("cliLogin")
          .values({
            lookup: login.lookup,
            accountId: login.account,
            tokenId: login.key,
            createdAt: new Date(login.atMs),
            expiresAt: new Date(login.expiresAtMs),
          })
          .onConflict((conflict) => conflict.column("lookup").doNothing())
          .executeTakeFirst();
        if (numInsertedOrUpdatedRows === 0n) return false;
        await announce(trx, "cli_login", login.lookup.toString("hex"));
        return true;
      }),

    async takeCliLogin(lookup, nowMs) {
      const now = new Date(nowMs);
      const row = await db
        .updateTable("cliLogin")
        .set({ answeredAt: now })
        .where("lookup", "=", lookup)
        .where("answeredAt", "is", null)
        .where("expiresAt", ">", now)
        .returning(["accountId as account", "tokenId as key"])
        .executeTakeFirst();
      return row ?? ((await known(lookup)) ? "over" : "unknown");
    },
  });
}
