import { createHash } from "node:crypto";
import { type Kysely, sql } from "kysely";
import type { AttemptStore } from "../accounts/store.ts";
import { asked } from "./asked.ts";
import type { Database } from "./schema.ts";

const digest = (key: string): Buffer => createHash("sha256").update(key).digest();

export function createAttemptStore(db: Kysely<Database>): AttemptStore {
  return asked<AttemptStore>({
    async countAttempt(key, nowMs, windowMs) {
      const [now, end] = [new Date(nowMs), new Date(nowMs + windowMs)];
      const row = await db
        .insertInto("sign_in_attempt")
        .values({ key: digest(key), taken: 1, expires_at: end })
        .onConflict((at) =>
          at.column("key").doUpdateSet({
            taken: sql<number>`case when sign_in_attempt.expires_at <= ${now} then 1 else sign_in_attempt.taken + 1 end`,
            expires_at: sql<Date>`case when sign_in_attempt.expires_at <= ${now} then ${end} else sign_in_attempt.expires_at end`,
          }),
        )
        .returning(["taken", "expires_at"])
        .executeTakeFirstOrThrow();
      return { taken: row.taken, endsAtMs: row.expires_at.getTime() };
    },

    async forgetAttempts(key) {
      await db.deleteFrom("sign_in_attempt").where("key", "=", digest(key)).execute();
    },
  });
}
