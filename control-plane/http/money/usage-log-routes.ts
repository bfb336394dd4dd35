// Usage by day and the request log. These paths are our own addition to the interface.
import { type Static, Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readRange } from "../core/read-range.ts";
import type { MoneyFeatures } from "./features.ts";
import { renderRequest, renderRequestForOperator, renderUsageDay } from "./render-usage-log.ts";
import {
  AdminAttempts,
  AdminRequestPage,
  AdminRequestsQuery,
  Attempts,
  RequestPage,
  RequestsQuery,
  UsageDaysBody,
  UsageDaysQuery,
} from "./usage-log-schemas.ts";

const params = Type.Object({ request_id: Type.String({ maxLength: 256, pattern: "^[^\\u0000]*$" }) });

export function addUsageLogRoutes(endpoints: Endpoints, { usageDays, requestLog }: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  own.get("/v1/usage/days", {
    summary: "Get usage by day and by model, key or scoped token",
    query: UsageDaysQuery,
    answer: UsageDaysBody,
    refusals: [429],
    async handler({ caller, query: { by = "model", from, to } }) {
      const { days, isTruncated } = await usageDays.read(caller.account, by, from, to);
      return { days: days.map((day) => renderUsageDay(day, by)), is_truncated: isTruncated };
    },
  });

  const pageOf = (account: AccountId, query: Static<typeof RequestsQuery>) => {
    const range = readRange(query.from ?? "now-7d", query.to, Date.now());
    const filter = { ...range, model: query.model, onlyFailed: query.failed ?? false };
    return requestLog.list(account, filter, query.after, query.limit ?? 50);
  };

  own.get("/v1/requests", {
    summary: "List finished requests, newest first: figures without content",
    query: RequestsQuery,
    answer: RequestPage,
    refusals: [404, 429],
    async handler({ caller, query }) {
      const { requests, hasMore } = await pageOf(caller.account, query);
      return { requests: requests.map(renderRequest), has_more: hasMore };
    },
  });

  own.get("/v1/requests/:request_id", {
    summary: "List attempts of a request, by its id or the x-request-id of the client",
    params,
    answer: Attempts,
    refusals: [404],
    handler: async ({ caller, params: { request_id: id } }) => ({
      attempts: (await requestLog.find(id, caller.account)).map(renderRequest),
    }),
  });

  admin.get("/v1/admin/requests", {
    summary: "List finished requests of an account, newest first",
    query: AdminRequestsQuery,
    answer: AdminRequestPage,
    refusals: [404, 429],
    async handler({ query: { account, ...query } }) {
      const { requests, hasMore } = await pageOf(account as AccountId, query);
      return { requests: requests.map(renderRequestForOperator), has_more: hasMore };
    },
  });

  admin.get("/v1/admin/requests/:request_id", {
    summary: "List attempts of a request of any account",
    params,
    answer: AdminAttempts,
    refusals: [404],
    handler: async ({ params: { request_id: id } }) => ({
      attempts: (await requestLog.find(id, undefined)).map(renderRequestForOperator),
    }),
  });
}
