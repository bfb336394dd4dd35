import type { AccountId } from "../../../proto/ids.ts";
import type { Voice, VoiceBlend, VoiceId, VoiceStore } from "../../assets/store.ts";
import { lockAccount } from "../accounts/account-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { rowCount } from "../core/rows.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

export function createVoiceStore(db: Db): VoiceStore {
  async function voicesOf(on: Db, account: AccountId, id?: VoiceId): Promise<readonly Voice[]> {
    const rows = await on
      .selectFrom("voice")
      .select(["voiceId as id", "name", "description"])
      .select([epochMs("createdAt").as("createdAtMs"), epochMs("updatedAt").as("updatedAtMs")])
      .where("accountId", "=", account)
      .$if(id !== undefined, (query) => query.where("voiceId", "=", id as VoiceId))
      .orderBy("createdAt")
      .orderBy("voiceId")
      .execute();
    if (rows.length === 0) return [];
    const blends = await on
      .selectFrom("voiceBlend")
      .select(["voiceId", "model", "blend", "measured"])
      .where("accountId", "=", account)
      .orderBy("madeAt")
      .execute();
    return rows.map((row) => ({
      ...row,
      blends: blends
        .filter(({ voiceId }) => voiceId === row.id)
        .map(({ model, blend, measured }) => ({ model, blend, measured })),
    }));
  }

  const blendRow = (account: AccountId, id: VoiceId, { model, blend, measured }: VoiceBlend) => ({
    voiceId: id,
    accountId: account,
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

    samples: (account, id) =>
      db
        .selectFrom("voiceSample")
        .select(["contentType", "sealed as bytes"])
        .where("accountId", "=", account)
        .where("voiceId", "=", id)
        .orderBy("place")
        .execute(),

    add: (account, voice, maxVoices) =>
      inTransaction(db, async (trx) => {
        // Locks the row, so that concurrent voices count each other and none is added to a deleted account.
        if (!(await lockAccount(trx, account, "forUpdate"))) return "gone" as const;
        const { count } = await trx
          .selectFrom("voice")
          .select(rowCount)
          .where("accountId", "=", account)
          .executeTakeFirstOrThrow();
        if (count >= maxVoices) return "full" as const;
        const { id, name, description, blend, samples } = voice;
        await trx.insertInto("voice").values({ voiceId: id, accountId: account, name, description }).execute();
        await trx
          .insertInto("voiceBlend")
          .values(blendRow(account, id, blend))
          .execute();
        for (const [place, { contentType, bytes }] of samples.entries())
          await trx
            .insertInto("voiceSample")
            .values({ voiceId: id, accountId: account, place, contentType, sealed: bytes })
            .execute();
        const [made] = await voicesOf(trx, account, id);
        await announce(trx, "voice", account);
        return made as Voice;
      }).catch(nameTaken),

    async addBlend(account, id, blend) {
      await inTransaction(db, async (trx) => {
        const there = await trx
          .selectFrom("voice")
          .select("voiceId")
          .where("accountId", "=", account)
          .where("voiceId", "=", id)
          .forShare()
          .executeTakeFirst();
        if (!there) return;
        await trx
          .insertInto("voiceBlend")
          .values(blendRow(account, id, blend))
          .onConflict((conflict) => conflict.columns(["voiceId", "model"]).doNothing())
          .execute();
        await announce(trx, "voice", account);
      });
    },

    edit: (account, id, { name, description }) =>
      inTransaction(db, async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("voice")
          .set({ name, ...(description === undefined ? {} : { description }), updatedAt: now })
          .where("accountId", "=", account)
          .where("voiceId", "=", id)
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
          .where("accountId", "=", account)
          .where("voiceId", "=", id)
          .executeTakeFirst();
        if (numDeletedRows === 0n) return false;
        await announce(trx, "voice", account);
        return true;
      }),
  });
}
