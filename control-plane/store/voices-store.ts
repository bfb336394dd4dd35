import { type Kysely, sql } from "kysely";
import type { AccountId } from "../../proto/ids.ts";
import type { Voice, VoiceBlend, VoiceId, VoiceStore } from "../assets/store.ts";
import { liveAccount } from "./account-rows.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import type { Database } from "./schema.ts";

export function createVoiceStore(db: Kysely<Database>): VoiceStore {
  async function voicesOf(on: Kysely<Database>, account: AccountId, id?: VoiceId): Promise<readonly Voice[]> {
    const rows = await on
      .selectFrom("voice")
      .selectAll()
      .where("account_id", "=", account)
      .$if(id !== undefined, (query) => query.where("voice_id", "=", id as string))
      .orderBy("created_at")
      .orderBy("voice_id")
      .execute();
    if (rows.length === 0) return [];
    const blends = await on
      .selectFrom("voice_blend")
      .select(["voice_id", "model", "blend", "measured"])
      .where("account_id", "=", account)
      .orderBy("made_at")
      .execute();
    return rows.map((row) => ({
      id: row.voice_id as VoiceId,
      name: row.name,
      description: row.description,
      blends: blends
        .filter(({ voice_id }) => voice_id === row.voice_id)
        .map(({ model, blend, measured }) => ({ model, blend, measured })),
      createdAtMs: row.created_at.getTime(),
      updatedAtMs: row.updated_at.getTime(),
    }));
  }

  const blendRow = (account: AccountId, id: VoiceId, { model, blend, measured }: VoiceBlend) => ({
    voice_id: id,
    account_id: account,
    model,
    blend,
    measured: JSON.stringify(measured),
  });

  const nameTaken = (error: unknown): "name_taken" => {
    if (uniqueViolation(error) === undefined) throw error;
    return "name_taken";
  };

  return asked<VoiceStore>({
    voices: (account) => voicesOf(db, account),

    async samples(account, id) {
      const rows = await db
        .selectFrom("voice_sample")
        .select(["content_type", "sealed"])
        .where("account_id", "=", account)
        .where("voice_id", "=", id)
        .orderBy("place")
        .execute();
      return rows.map(({ content_type, sealed }) => ({ contentType: content_type, bytes: sealed }));
    },

    add: (account, voice, most) =>
      inTransaction(db, async (trx) => {
        // The row is locked: two that come at once must not both be the last that fits, nor outlive the account.
        const live = await liveAccount(trx, account).select("account_id").forUpdate().executeTakeFirst();
        if (!live) return "gone" as const;
        const { there } = await trx
          .selectFrom("voice")
          .select(({ fn }) => fn.countAll<bigint>().as("there"))
          .where("account_id", "=", account)
          .executeTakeFirstOrThrow();
        if (there >= BigInt(most)) return "full" as const;
        const { id, name, description, blend, samples } = voice;
        await trx.insertInto("voice").values({ voice_id: id, account_id: account, name, description }).execute();
        await trx
          .insertInto("voice_blend")
          .values(blendRow(account, id, blend))
          .execute();
        for (const [place, { contentType, bytes }] of samples.entries())
          await trx
            .insertInto("voice_sample")
            .values({ voice_id: id, account_id: account, place, content_type: contentType, sealed: bytes })
            .execute();
        const [made] = await voicesOf(trx, account, id);
        await announce(trx, "voice", account);
        return made as Voice;
      }).catch(nameTaken),

    async addBlend(account, id, blend) {
      await inTransaction(db, async (trx) => {
        const there = await trx
          .selectFrom("voice")
          .select("voice_id")
          .where("account_id", "=", account)
          .where("voice_id", "=", id)
          .forShare()
          .executeTakeFirst();
        if (!there) return;
        await trx
          .insertInto("voice_blend")
          .values(blendRow(account, id, blend))
          .onConflict((conflict) => conflict.columns(["voice_id", "model"]).doNothing())
          .execute();
        await announce(trx, "voice", account);
      });
    },

    edit: (account, id, { name, description }) =>
      inTransaction(db, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("voice")
          .set({ name, ...(description === undefined ? {} : { description }), updated_at: sql<Date>`now()` })
          .where("account_id", "=", account)
          .where("voice_id", "=", id)
          .executeTakeFirst();
        if (numUpdatedRows === 0n) return undefined;
        const [voice] = await voicesOf(trx, account, id);
        await announce(trx, "voice", account);
        return voice;
      }).catch(nameTaken),

    remove: (account, id) =>
      inTransaction(db, async (trx) => {
        const { numDeletedRows } = await trx
          .deleteFrom("voice")
          .where("account_id", "=", account)
          .where("voice_id", "=", id)
          .executeTakeFirst();
        if (numDeletedRows === 0n) return false;
        await announce(trx, "voice", account);
        return true;
      }),
  });
}
