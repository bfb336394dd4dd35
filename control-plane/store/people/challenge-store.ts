import type { Kysely } from "kysely";
import type { ChallengeStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import type { Database } from "../core/schema.ts";

export function createChallengeStore(db: Kysely<Database>): ChallengeStore {
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
        .select(["purpose", "accountId as account", "session", "challenge", "sealed"])
        .where("lookup", "=", lookup)
        .where("purpose", "in", purposes)
        .where("expiresAt", ">", new Date(nowMs))
        .executeTakeFirst(),

    async takeChallenge(lookup, nowMs) {
      const { numDeletedRows } = await db
        .deleteFrom("signInChallenge")
        .where("lookup", "=", lookup)
        .where("expiresAt", ">", new Date(nowMs))
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },
  });
}
