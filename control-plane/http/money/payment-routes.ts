import { Type } from "typebox";
import type { Endpoints } from "../core/endpoint.ts";
import { apiKeyNotFound } from "../errors/errors.ts";
import type { MoneyFeatures } from "./features.ts";
import { Checklist, Period, Rent, UsageBody, UsageByKeyBody } from "./payment-schemas.ts";
import { readChecklist, renderUsage, renderUsageByKey } from "./render-payment.ts";

export function addPaymentRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const { accounts, usage } = deps;

  own.get("/payment/checklist", {
    summary: "Get funds, recent usage and suspension",
    query: Type.Object({
      compute_owed: Type.Optional(
        Type.Boolean({ default: false, description: "Compute the account's good standing first" }),
      ),
    }),
    answer: Checklist,
    refusals: [404],
    handler: ({ caller, query }) => readChecklist(deps.checklists, caller, query.compute_owed === true),
  });

  own.get("/payment/usage", {
    summary: "Get usage of the account by month and model",
    query: Period,
    answer: UsageBody,
    handler: async ({ caller, query }) =>
      renderUsage(await usage.usage({ account: caller.account }, query.from ?? "current", query.to)),
  });

  own.get("/payment/usage/tokens", {
    summary: "Get usage of each API key",
    query: Period,
    answer: UsageByKeyBody,
    handler: async ({ caller, query }) =>
      renderUsageByKey(await usage.byKey(caller.account, query.from ?? "current", query.to)),
  });

  own.get("/payment/usage/rent", {
    summary: "Get the billed time of each dedicated deployment",
    query: Type.Object({
      from: Type.Integer({ minimum: 0, maximum: 100_000_000_000, description: "Unix seconds" }),
      to: Type.Optional(
        Type.Integer({ minimum: 0, maximum: 100_000_000_000, description: "Unix seconds; default: now" }),
      ),
    }),
    answer: Rent,
    async handler({ caller, query }) {
      return { id_to_duration: Object.fromEntries(await usage.rent(caller.account, query.from, query.to)) };
    },
  });

  for (const path of ["/payment/usage/:api_token", "/payment/usage/id/:api_token"] as const) {
    own.get(path, {
      summary: "Get usage of one API key, by the key or its token_id",
      query: Period,
      answer: UsageBody,
      refusals: [404],
      async handler({ caller, query, params }) {
        const key = await accounts.findOwnKey(caller.account, params.api_token);
        if (key === undefined) throw apiKeyNotFound();
        return renderUsage(await usage.usage({ account: caller.account, key }, query.from ?? "current", query.to));
      },
    });
  }
}
