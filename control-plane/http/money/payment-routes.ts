import { Type } from "typebox";
import type { Endpoints } from "../core/endpoint.ts";
import { apiKeyNotFound } from "../errors/errors.ts";
import type { MoneyFeatures } from "./features.ts";
import { Checklist, Period, Rent, UsageBody, UsageByKeyBody } from "./payment-schemas.ts";
import { readChecklist, renderUsage, renderUsageByKey } from "./render-payment.ts";

const common = { tag: "billing", access: "key" } as const;

export function addPaymentRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const { accounts, usage } = deps;

  endpoints.add({
    ...common,
    method: "GET",
    path: "/payment/checklist",
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

  endpoints.add({
    ...common,
    method: "GET",
    path: "/payment/usage",
    summary: "Get usage of the account by month and model",
    query: Period,
    answer: UsageBody,
    handler: async ({ caller, query }) =>
      renderUsage(await usage.usage({ account: caller.account }, query.from ?? "current", query.to)),
  });

  endpoints.add({
    ...common,
    method: "GET",
    path: "/payment/usage/tokens",
    summary: "Get usage of each API key",
    query: Period,
    answer: UsageByKeyBody,
    handler: async ({ caller, query }) =>
      renderUsageByKey(await usage.byKey(caller.account, query.from ?? "current", query.to)),
  });

  endpoints.add({
    ...common,
    method: "GET",
    path: "/payment/usage/rent",
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

  for (const path of ["/payment/usage/:api_token", "/payment/usage/id/:api_token"]) {
    endpoints.add({
      ...common,
      method: "GET",
      path,
      summary: "Get usage of one API key, by the key or its token_id",
      query: Period,
      params: Type.Object({ api_token: Type.String() }),
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
