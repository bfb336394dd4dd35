// Use by day and the log of requests. No paths of the published interface: the console's, and anybody's.
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

const own = { method: "GET", tag: "billing", access: "key" } as const;
const operators = { method: "GET", tag: "operator", access: "admin" } as const;
const params = Type.Object({ request_id: Type.String({ maxLength: 256, pattern: "^[^\\u0000]*$" }) });

export function addUsageLogRoutes(endpoints: Endpoints, { usageDays, requestLog }: MoneyFeatures): void {
  endpoints.add({
    ...own,
    path: "/v1/usage/days",
    summary: "Use of the account by day, and by model, key or scoped token",
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

  endpoints.add({
    ...own,
    path: "/v1/requests",
    summary: "Requests of the account that have ended, newest first: figures, and nothing of what was asked",
    query: RequestsQuery,
    answer: RequestPage,
    refusals: [404, 429],
    async handler({ caller, query }) {
      const { requests, hasMore } = await pageOf(caller.account, query);
      return { requests: requests.map(renderRequest), has_more: hasMore };
    },
  });

  endpoints.add({
    ...own,
    path: "/v1/requests/:request_id",
    summary: "Each attempt of one request, by its own id or the x-request-id that it was sent with",
    params,
    answer: Attempts,
    refusals: [404],
    handler: async ({ caller, params: { request_id: id } }) => ({
      attempts: (await requestLog.find(id, caller.account)).map(renderRequest),
    }),
  });

  endpoints.add({
    ...operators,
    path: "/v1/admin/requests",
    summary: "The same of any one account",
    query: AdminRequestsQuery,
    answer: AdminRequestPage,
    refusals: [404, 429],
    async handler({ query: { account, ...query } }) {
      const { requests, hasMore } = await pageOf(account as AccountId, query);
      return { requests: requests.map(renderRequestForOperator), has_more: hasMore };
    },
  });

  endpoints.add({
    ...operators,
    path: "/v1/admin/requests/:request_id",
    summary: "Each attempt of one request, whoever's it is",
    params,
    answer: AdminAttempts,
    refusals: [404],
    handler: async ({ params: { request_id: id } }) => ({
      attempts: (await requestLog.find(id, undefined)).map(renderRequestForOperator),
    }),
  });
}
