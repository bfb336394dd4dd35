import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { Endpoints } from "../endpoint.ts";
import { readTime } from "../read-time.ts";
import { basisPointsOf, ratesFrom, renderDiscount, renderPrice } from "../render-prices.ts";
import { DiscountBody, Kind, NewDiscount, NewPrice, Price } from "../schemas/prices.ts";
import type { HttpDeps } from "../verbs.ts";

const shared = { tag: "operator", access: "admin" } as const;

export function addAdminPriceRoutes(
  endpoints: Endpoints,
  { prices, discounts }: Pick<HttpDeps, "prices" | "discounts">,
): void {
  endpoints.add({
    ...shared,
    method: "GET",
    path: "/v1/admin/prices",
    summary: "The price book: every version, past and to come",
    query: Type.Object({
      kind: Type.Optional(Kind),
      subject: Type.Optional(Type.String({ maxLength: 256 })),
    }),
    answer: Type.Object({ prices: Type.Array(Price) }),
    refusals: [503],
    handler: async ({ query }) => ({ prices: (await prices.list(query)).map(renderPrice) }),
  });

  endpoints.add({
    ...shared,
    method: "POST",
    path: "/v1/admin/prices",
    summary: "Set a price from a date on; what was used before keeps its price",
    body: NewPrice,
    answer: Price,
    refusals: [503],
    async handler({ caller, body, reply }) {
      const { kind, subject } = body;
      const from = body.effective_from ?? undefined;
      const set = await prices.set(
        {
          kind,
          subject,
          rates: ratesFrom(body.rates),
          ...(from === undefined ? {} : { effectiveFromMs: readTime("effective_from", from) }),
        },
        setter(caller, reply, body.note),
      );
      const listed = (await prices.list({ kind, subject })).find((one) => one.version === set.version);
      return renderPrice(listed ?? { ...set, isCurrent: false });
    },
  });

  endpoints.add({
    ...shared,
    method: "GET",
    path: "/v1/admin/discounts",
    summary: "Discounts, ended ones included, newest first",
    answer: Type.Object({ discounts: Type.Array(DiscountBody) }),
    refusals: [503],
    handler: async () => ({ discounts: (await discounts.list()).map(renderDiscount) }),
  });

  endpoints.add({
    ...shared,
    method: "POST",
    path: "/v1/admin/discounts",
    summary: "Give a discount to an account, a model, a surface, or all; of several a request gets the largest",
    body: NewDiscount,
    answer: DiscountBody,
    refusals: [503],
    async handler({ caller, body, reply }) {
      const { effective_from: from, effective_to: to } = body;
      return renderDiscount(
        await discounts.create(
          {
            name: body.name,
            text: body.text ?? "",
            basisPoints: basisPointsOf(body.percent),
            account: (body.uid ?? null) as AccountId | null,
            model: body.model ?? null,
            surface: body.surface ?? null,
            ...(from ? { effectiveFromMs: readTime("effective_from", from) } : {}),
            effectiveToMs: to ? readTime("effective_to", to) : null,
          },
          setter(caller, reply, body.note),
        ),
      );
    },
  });

  endpoints.add({
    ...shared,
    method: "DELETE",
    path: "/v1/admin/discounts/:id",
    summary: "End a discount now; what was billed with it stays",
    params: Type.Object({ id: Type.String() }),
    answer: Type.Object({}),
    refusals: [404, 503],
    async handler({ caller, params, reply }) {
      await discounts.end(params.id, setter(caller, reply));
      return {};
    },
  });
}

const setter = (caller: Caller, reply: FastifyReply, note = "") => ({
  actor: caller.account,
  ip: reply.request.ip,
  note,
});
