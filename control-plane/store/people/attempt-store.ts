import { createHash } from "node:crypto";
import { type Kysely, sql } from "kysely";
import type { AttemptStore } from "../../accounts/store.ts";
import { asked } from "../core/asked.ts";
import type { Database } from "../core/schema.ts";

const digest = (key: string): Buffer => createHash("sha256").update(key).digest();

export function createAttemptStore(db: Kysely<Database>): AttemptStore {
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
