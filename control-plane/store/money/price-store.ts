import { type Selectable, sql } from "kysely";
import { serviceTiers } from "../../../proto/service-tier.ts";
import type { Act } from "../../act.ts";
import type { Discount, DiscountStore, NewPrice, PriceStore, PriceVersion } from "../../billing/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Database, Db } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

export function createPriceStore(db: Db): PriceStore & DiscountStore {
  return asked<PriceStore & DiscountStore>({
    setPrice: (price, by) =>
      inTransaction(db, async (trx) => {
        const subject = `${price.kind}/${price.subject}`;
        const before = await trx
          .selectFrom("price")
          .selectAll()
          .where("kind", "=", price.kind)
          .where("subject", "=", price.subject)
          .where("effectiveFrom", "<=", now)
          .orderBy("effectiveFrom", "desc")
          .orderBy("priceVersion", "desc")
          .executeTakeFirst();
        const row = await trx.insertInto("price").values(rowOf(price)).returningAll().executeTakeFirstOrThrow();
        const set = priceOf(row);
        if (by) {
          await auditAct(trx, by, {
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

    async prices({ kind, subject }) {
      const rows = await db
        .selectFrom("price")
        .selectAll()
        .$if(kind !== undefined, (query) => query.where("kind", "=", kind as PriceVersion["kind"]))
        .$if(subject !== undefined, (query) => query.where("subject", "=", subject as string))
        .orderBy("kind")
        .orderBy("subject")
        .orderBy("effectiveFrom", "desc")
        .orderBy("priceVersion", "desc")
        .execute();
      return rows.map(priceOf);
    },

    addDiscount: (discount, by) =>
      inTransaction(db, async (trx) => {
        if (discount.account !== null) {
          const owner = await trx
            .selectFrom("account")
            .select("accountId")
            .where("accountId", "=", discount.account)
            .executeTakeFirst();
          if (!owner) return false;
        }
        await trx
          .insertInto("discount")
          .values({
            discountId: discount.id,
            name: discount.name,
            text: discount.text,
            basisPoints: discount.basisPoints,
            accountId: discount.account,
            model: discount.model,
            surface: discount.surface,
            effectiveFrom: new Date(discount.effectiveFromMs),
            effectiveTo: discount.effectiveToMs === null ? null : new Date(discount.effectiveToMs),
          })
          .execute();
        if (by) await auditDiscount(trx, "discount.create", discount, by);
        await announce(trx, "price", `discount/${discount.id}`);
        return true;
      }),

    endDiscount: (id, by) =>
      inTransaction(db, async (trx) => {
        const row = await trx
          .updateTable("discount")
          .set({ effectiveTo: sql<Date>`greatest(now(), effective_from)` })
          .where("discountId", "=", id)
          .where((where) => where.or([where("effectiveTo", "is", null), where("effectiveTo", ">", now)]))
          .returning(discountColumns)
          .executeTakeFirst();
        if (!row) return false;
        if (by) await auditDiscount(trx, "discount.end", row, by);
        await announce(trx, "price", `discount/${id}`);
        return true;
      }),

    discounts: () =>
      db
        .selectFrom("discount")
        .select(discountColumns)
        // Names of tiers on bills.
        .where("discountId", "not in", serviceTiers)
        .orderBy("createdAt", "desc")
        .execute(),
  });
}

const rowOf = ({ kind, subject, rates, tiers, effectiveFromMs }: NewPrice) => ({
  kind,
  subject,
  inputRate: rates.input,
  cachedInputRate: rates.cachedInput,
  outputRate: rates.output,
  characterRate: rates.characters,
  audioRate: rates.audio,
  imageRate: rates.images,
  imageSteps: Number(rates.imageSteps),
  hourRate: rates.hour,
  priorityPercent: tiers.priority,
  flexPercent: tiers.flex,
  effectiveFrom: new Date(effectiveFromMs),
});

const priceOf = (row: Selectable<Database["price"]>): PriceVersion => ({
  version: row.priceVersion,
  kind: row.kind,
  subject: row.subject,
  rates: {
    input: row.inputRate,
    cachedInput: row.cachedInputRate,
    output: row.outputRate,
    characters: row.characterRate,
    audio: row.audioRate,
    images: row.imageRate,
    imageSteps: BigInt(row.imageSteps),
    hour: row.hourRate,
  },
  tiers: { priority: row.priorityPercent, flex: row.flexPercent },
  effectiveFromMs: row.effectiveFrom.getTime(),
  setAtMs: row.setAt.getTime(),
});

/** JSON has no bigint. */
const plain = ({ version, rates, tiers, effectiveFromMs }: PriceVersion) => ({
  version: String(version),
  rates: Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, String(rate)])),
  tiers,
  effective_from: new Date(effectiveFromMs).toISOString(),
});

function auditDiscount(
  trx: Parameters<typeof auditAct>[0],
  action: string,
  { id, account, ...rest }: Discount,
  by: Act,
): Promise<void> {
  return auditAct(trx, by, { action, subject: id, account, after: rest });
}

/** Columns of a Discount. */
export const discountColumns = [
  ...(["discountId as id", "name", "text", "basisPoints", "accountId as account", "model", "surface"] as const),
  epochMs("effectiveFrom").as("effectiveFromMs"),
  epochMs<null>("effectiveTo").as("effectiveToMs"),
] as const;
