// The price book counts in nano-USD per million units, audio in milliseconds; the wire in USD.

import { type Static, Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import type { AccountName } from "../../accounts/operator.ts";
import type { ListedPrice } from "../../billing/price-book.ts";
import type { Discount, PriceRates } from "../../billing/store.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readTime } from "../core/read-range.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { maxImageUsd } from "../models/models-schemas.ts";
import { priceFromUsd } from "../models/rates.ts";
import { Note } from "../operator/operator-schemas.ts";
import type { MoneyFeatures } from "./features.ts";

const kinds = ["model", "gpu", "gpu_asleep", "container"] as const;
const Kind = Type.Unsafe<(typeof kinds)[number]>({ type: "string", enum: [...kinds] });

const usdPer = (description: string, maximum = 1e6) =>
  Type.Optional(Type.Number({ minimum: 0, maximum, description: `USD per ${description}` }));

/** USD. Models have a price per unit, GPUs and containers per hour; omitted units are free. */
const Rates = Type.Object(
  {
    input: usdPer("million tokens"),
    cached_input: usdPer("million tokens; default: as input"),
    output: usdPer("million tokens"),
    characters: usdPer("million characters"),
    audio: usdPer("1000 seconds of audio"),
    image: usdPer("image", maxImageUsd),
    image_steps: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 1_000,
        description:
          "Steps of a 1024 x 1024 image at that price; other images cost in proportion. 0: all images cost the same",
      }),
    ),
    hour: usdPer("hour of one GPU or container"),
  },
  { additionalProperties: false, minProperties: 1 },
);
type Rates = Static<typeof Rates>;

const multiplier = (tier: string) =>
  Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: 100,
      description: `Price of the service tier ${tier}, times the rates. Default: 1`,
    }),
  );

const Tiers = Type.Object(
  { priority: multiplier("priority"), flex: multiplier("flex") },
  { additionalProperties: false, description: "Models only" },
);

const time = (description: string) =>
  nullable.string({ maxLength: 40, description: `Unix seconds, or ISO 8601; ${description}` });

const NewPrice = Type.Object({
  kind: Kind,
  subject: Type.String({ minLength: 1, maxLength: 256, description: "Public model name, GPU type or container plan" }),
  rates: Rates,
  tiers: Type.Optional(Tiers),
  effective_from: Type.Optional(time("null: now. Must not be in the past")),
  note: Type.Optional(Note),
});

const Price = Type.Object({
  version: Type.Integer(),
  kind: Kind,
  subject: Type.String(),
  rates: Rates,
  tiers: Tiers,
  effective_from: Type.String({ description: "ISO 8601" }),
  current: Type.Boolean({ description: "Currently valid" }),
});

const words = (maxLength: number) => nullable.string({ minLength: 1, maxLength });

const NewDiscount = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, description: "Shown on bills" }),
  text: Type.Optional(nullable.string({ maxLength: 1_000, description: "Shown on bills" })),
  percent: Type.Number({ minimum: 0.01, maximum: 100, description: "In steps of 0.01" }),
  uid: Type.Optional(words(64)),
  model: Type.Optional(words(256)),
  surface: Type.Optional(words(64)),
  effective_from: Type.Optional(time("null: now")),
  effective_to: Type.Optional(time("null: open")),
  note: Type.Optional(Note),
});

const DiscountBody = Type.Object({
  id: Type.String(),
  name: Type.String(),
  text: Type.String(),
  percent: Type.Number(),
  uid: nullable.string({ description: "null: every account" }),
  account_email: nullable.string({
    description: "E-mail address, or the uid if the account was deleted. null: every account",
  }),
  model: nullable.string({ description: "null: every model" }),
  surface: nullable.string({ description: "null: every surface" }),
  effective_from: Type.String({ description: "ISO 8601" }),
  effective_to: nullable.string({ description: "ISO 8601, exclusive; null: open" }),
});

export function addAdminPriceRoutes(endpoints: Endpoints, { prices, discounts, operator }: MoneyFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/prices", {
    summary: "List all versions of prices, past and future",
    query: Type.Object({
      kind: Type.Optional(Kind),
      subject: Type.Optional(Type.String({ maxLength: 256 })),
    }),
    answer: Type.Object({ prices: Type.Array(Price) }),
    handler: async ({ query }) => ({ prices: (await prices.list(query)).map(renderPrice) }),
  });

  admin.post("/v1/admin/prices", {
    summary: "Set a price from a date; earlier usage keeps its price",
    body: NewPrice,
    answer: Price,
    async handler({ caller, body, reply }) {
      const { kind, subject } = body;
      const from = body.effective_from ?? undefined;
      const set = await prices.set(
        {
          kind,
          subject,
          rates: ratesFrom(body.rates),
          tiers: tiersFrom(body.tiers ?? {}),
          ...(from === undefined ? {} : { effectiveFromMs: readTime("effective_from", from) }),
        },
        actOf(caller, reply, body.note),
      );
      const listed = (await prices.list({ kind, subject })).find((one) => one.version === set.version);
      return renderPrice(listed ?? { ...set, isCurrent: false });
    },
  });

  admin.get("/v1/admin/discounts", {
    summary: "List discounts, including ended ones, newest first",
    answer: Type.Object({ discounts: Type.Array(DiscountBody) }),
    async handler() {
      const all = await discounts.list();
      const names = await operator.names(all.flatMap(({ account }) => account ?? []));
      return { discounts: all.map((one) => renderDiscount(one, names)) };
    },
  });

  admin.post("/v1/admin/discounts", {
    summary: "Create a discount for an account, a model, a surface or all; of several the largest applies",
    body: NewDiscount,
    answer: DiscountBody,
    async handler({ caller, body, reply }) {
      const { effective_from: from, effective_to: to } = body;
      const account = (body.uid ?? null) as AccountId | null;
      const created = await discounts.create(
        {
          name: body.name,
          text: body.text ?? "",
          basisPoints: basisPointsOf(body.percent),
          account,
          model: body.model ?? null,
          surface: body.surface ?? null,
          ...(from ? { effectiveFromMs: readTime("effective_from", from) } : {}),
          effectiveToMs: to ? readTime("effective_to", to) : null,
        },
        actOf(caller, reply, body.note),
      );
      return renderDiscount(created, await operator.names(account === null ? [] : [account]));
    },
  });

  admin.delete("/v1/admin/discounts/:id", {
    summary: "End a discount; billed usage keeps it",
    refusals: [404],
    handler: ({ caller, params, reply }) => discounts.end(params.id, actOf(caller, reply)),
  });
}

const million = 1_000_000n;
const usd = (amount: bigint) => toUsd(nano(amount));
const iso = (ms: number) => new Date(ms).toISOString().replace("Z", "+00:00");

const ratesFrom = (rates: Rates): PriceRates => ({
  input: priceFromUsd(rates.input ?? 0, "rates.input"),
  cachedInput: priceFromUsd(rates.cached_input ?? rates.input ?? 0, "rates.cached_input"),
  output: priceFromUsd(rates.output ?? 0, "rates.output"),
  characters: priceFromUsd(rates.characters ?? 0, "rates.characters"),
  audio: priceFromUsd(rates.audio ?? 0, "rates.audio"),
  images: priceFromUsd(rates.image ?? 0, "rates.image") * million,
  imageSteps: BigInt(rates.image_steps ?? 0),
  hour: priceFromUsd(rates.hour ?? 0, "rates.hour"),
});

const tiersFrom = ({ priority = 1, flex = 1 }: Static<typeof Tiers>) => ({
  priority: Math.round(priority * 100),
  flex: Math.round(flex * 100),
});

const renderPrice = (one: ListedPrice) => ({
  version: Number(one.version),
  kind: one.kind,
  subject: one.subject,
  rates: {
    input: usd(one.rates.input),
    cached_input: usd(one.rates.cachedInput),
    output: usd(one.rates.output),
    characters: usd(one.rates.characters),
    audio: usd(one.rates.audio),
    image: usd(one.rates.images / million),
    image_steps: Number(one.rates.imageSteps),
    hour: usd(one.rates.hour),
  },
  tiers: { priority: one.tiers.priority / 100, flex: one.tiers.flex / 100 },
  effective_from: iso(one.effectiveFromMs),
  current: one.isCurrent,
});

const renderDiscount = (one: Discount, names: ReadonlyMap<AccountId, AccountName>) => ({
  id: one.id,
  name: one.name,
  text: one.text,
  percent: one.basisPoints / 100,
  uid: one.account,
  account_email: one.account === null ? null : (names.get(one.account)?.email ?? null),
  model: one.model,
  surface: one.surface,
  effective_from: iso(one.effectiveFromMs),
  effective_to: one.effectiveToMs === null ? null : iso(one.effectiveToMs),
});

/** Returns hundredths of a per cent. Finer values are not rounded, so that the price book refuses them. */
function basisPointsOf(percent: number): number {
  const points = Math.round(percent * 100);
  return Math.abs(points - percent * 100) < 1e-6 ? points : percent * 100;
}
