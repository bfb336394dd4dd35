import { type Kysely, type Selectable, sql } from "kysely";
import type { Discount, DiscountStore, NewPrice, PriceSetter, PriceStore, PriceVersion } from "../billing/store.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { asking, inTransaction } from "./database.ts";
import { discountOf } from "./discount-rows.ts";
import type { Database } from "./schema.ts";

export function createPriceStore(db: Kysely<Database>): PriceStore & DiscountStore {
  return {
    setPrice: (price, by) =>
      asking(() =>
        inTransaction(db, async (trx) => {
          const subject = `${price.kind}/${price.subject}`;
          const before = await trx
            .selectFrom("price")
            .selectAll()
            .where("kind", "=", price.kind)
            .where("subject", "=", price.subject)
            .where("effective_from", "<=", sql<Date>`now()`)
            .orderBy("effective_from", "desc")
            .orderBy("price_version", "desc")
            .executeTakeFirst();
          const row = await trx.insertInto("price").values(rowOf(price)).returningAll().executeTakeFirstOrThrow();
          const set = priceOf(row);
          if (by) {
            await writeAudit(trx, {
              ...by,
              action: "price.set",
              subject,
              account: null,
              before: before && plain(priceOf(before)),
              after: plain(set),
            });
          }
          await announce(trx, "price", subject);
          return set;
        }),
      ),

    prices: ({ kind, subject }) =>
      asking(async () => {
        const rows = await db
          .selectFrom("price")
          .selectAll()
          .$if(kind !== undefined, (query) => query.where("kind", "=", kind as PriceVersion["kind"]))
          .$if(subject !== undefined, (query) => query.where("subject", "=", subject as string))
          .orderBy("kind")
          .orderBy("subject")
          .orderBy("effective_from", "desc")
          .orderBy("price_version", "desc")
          .execute();
        return rows.map(priceOf);
      }),

    addDiscount: (discount, by) =>
      asking(() =>
        inTransaction(db, async (trx) => {
          if (discount.account !== null) {
            const owner = await trx
              .selectFrom("account")
              .select("account_id")
              .where("account_id", "=", discount.account)
              .executeTakeFirst();
            if (!owner) return false;
          }
          await trx
            .insertInto("discount")
            .values({
              discount_id: discount.id,
              name: discount.name,
              text: discount.text,
              basis_points: discount.basisPoints,
              account_id: discount.account,
              model: discount.model,
              surface: discount.surface,
              effective_from: new Date(discount.effectiveFromMs),
              effective_to: discount.effectiveToMs === null ? null : new Date(discount.effectiveToMs),
            })
            .execute();
          if (by) await auditDiscount(trx, "discount.create", discount, by);
          await announce(trx, "price", `discount/${discount.id}`);
          return true;
        }),
      ),

    endDiscount: (id, by) =>
      asking(() =>
        inTransaction(db, async (trx) => {
          const row = await trx
            .updateTable("discount")
            .set({ effective_to: sql<Date>`greatest(now(), effective_from)` })
            .where("discount_id", "=", id)
            .where((where) =>
              where.or([where("effective_to", "is", null), where("effective_to", ">", sql<Date>`now()`)]),
            )
            .returningAll()
            .executeTakeFirst();
          if (!row) return false;
          if (by) await auditDiscount(trx, "discount.end", discountOf(row), by);
          await announce(trx, "price", `discount/${id}`);
          return true;
        }),
      ),

    discounts: () =>
      asking(async () => {
        const rows = await db.selectFrom("discount").selectAll().orderBy("created_at", "desc").execute();
        return rows.map(discountOf);
      }),
  };
}

const rowOf = ({ kind, subject, rates, effectiveFromMs }: NewPrice) => ({
  kind,
  subject,
  input_rate: rates.input,
  cached_input_rate: rates.cachedInput,
  output_rate: rates.output,
  character_rate: rates.characters,
  audio_rate: rates.audio,
  image_rate: rates.images,
  image_steps: Number(rates.imageSteps),
  hour_rate: rates.hour,
  effective_from: new Date(effectiveFromMs),
});

const priceOf = (row: Selectable<Database["price"]>): PriceVersion => ({
  version: row.price_version,
  kind: row.kind,
  subject: row.subject,
  rates: {
    input: row.input_rate,
    cachedInput: row.cached_input_rate,
    output: row.output_rate,
    characters: row.character_rate,
    audio: row.audio_rate,
    images: row.image_rate,
    imageSteps: BigInt(row.image_steps),
    hour: row.hour_rate,
  },
  effectiveFromMs: row.effective_from.getTime(),
  setAtMs: row.set_at.getTime(),
});

/** JSON has no bigint. */
const plain = ({ version, rates, effectiveFromMs }: PriceVersion) => ({
  version: String(version),
  rates: Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, String(rate)])),
  effective_from: new Date(effectiveFromMs).toISOString(),
});

function auditDiscount(
  trx: Parameters<typeof writeAudit>[0],
  action: string,
  { id, account, ...rest }: Discount,
  by: PriceSetter,
): Promise<void> {
  return writeAudit(trx, { ...by, action, subject: id, account, after: rest });
}
