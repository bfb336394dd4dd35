import { Type } from "typebox";
import type { Endpoints } from "../endpoint.ts";
import { ApiKeyNotFound } from "../errors.ts";
import { readChecklist } from "../read-checklist.ts";
import { renderUsage } from "../render-account.ts";
import { Checklist, UsageBody } from "../schemas/account.ts";
import type { HttpDeps } from "../verbs.ts";

const Period = Type.Object({
  from: Type.Optional(
    Type.String({ default: "current", description: "YYYY.MM, current, current(-N) or unix seconds" }),
  ),
  to: Type.Optional(Type.String({ description: "The same; without it the one month of `from`" })),
});

export function addAccountRoutes(endpoints: Endpoints, { accounts, usage }: HttpDeps): void {
  endpoints.add({
    method: "GET",
    path: "/payment/checklist",
    summary: "Funds, recent use and whether the account is suspended",
    tag: "billing",
    access: "key",
    query: Type.Object({ compute_owed: Type.Optional(Type.Boolean({ default: false })) }),
    answer: Checklist,
    refusals: [404, 503],
    handler: ({ caller }) => readChecklist(usage, caller),
  });

  endpoints.add({
    method: "GET",
    path: "/payment/usage",
    summary: "Use of the whole account, by month and model",
    tag: "billing",
    access: "key",
    query: Period,
    answer: UsageBody,
    refusals: [503],
    handler: async ({ caller, query }) =>
      renderUsage(await usage.usage({ account: caller.account }, query.from ?? "current", query.to)),
  });

  for (const path of ["/payment/usage/:api_token", "/payment/usage/id/:api_token"]) {
    endpoints.add({
      method: "GET",
      path,
      summary: "Use of one API key, named by the key or its token_id",
      tag: "billing",
      access: "key",
      query: Period,
      params: Type.Object({ api_token: Type.String() }),
      answer: UsageBody,
      refusals: [404, 503],
      async handler({ caller, query, params }) {
        const key = await accounts.findOwnKey(caller.account, params.api_token);
        if (key === undefined) throw new ApiKeyNotFound();
        return renderUsage(await usage.usage({ account: caller.account, key }, query.from ?? "current", query.to));
      },
    });
  }
}
