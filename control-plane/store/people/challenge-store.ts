import type { Kysely } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { ChallengeStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import type { Database } from "../core/schema.ts";

export function createChallengeStore(db: Kysely<Database>): ChallengeStore {
  return asked<ChallengeStore>({
    async putChallenge(lookup, purpose, { account, session, challenge, sealed }, expiresAtMs) {
      await db
        .insertInto("signInChallenge")
        .values({
          lookup,
          purpose,
          accountId: account,
          session,
          challenge,
          sealed,
          expiresAt: new Date(expiresAtMs),
        })
        .execute();
    },

    async challenge(lookup, purposes, nowMs) {
      const row = await db
        .selectFrom("signInChallenge")
        .selectAll()
        .where("lookup", "=", lookup)
        .where("purpose", "in", [...purposes])
        .where("expiresAt", ">", new Date(nowMs))
        .executeTakeFirst();
      return (
        row && {
          purpose: row.purpose as (typeof purposes)[number],
          account: row.accountId as AccountId | null,
          session: row.session,
          challenge: row.challenge,
          sealed: row.sealed,
        }
      );
    },

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
