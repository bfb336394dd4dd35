// Usage by day and the request log. These paths are our own addition to the interface.

import { type Static, type TInteger, Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import { serviceTiers } from "../../../proto/service-tier.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { type EndReason, endReasons } from "../../../proto/usage.ts";
import { type ShownColumn, type ShownUsage, shownFields } from "../../../proto/usage-record.ts";
import type { AccountName } from "../../accounts/operator.ts";
import type { Rejection } from "../../billing/rejections.ts";
import type { LoggedRequest } from "../../billing/request-log.ts";
import { maxDays, type UsageDay, type UsageDimension, usageDimensions } from "../../billing/usage-days.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readRange } from "../core/read-range.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { MoneyFeatures } from "./features.ts";
import { cents } from "./payment-routes.ts";

const day = (description: string) => Type.Optional(Type.String({ maxLength: 32, description }));

const UsageDaysQuery = Type.Object({
  by: Type.Optional(
    Type.Unsafe<(typeof usageDimensions)[number]>({
      type: "string",
      enum: [...usageDimensions],
      default: "model",
      description:
        "project: keys without a project together, with an empty id. token: only scoped tokens with their own limit; others are not recorded. user: end users that requests named. model_and_key: each pair",
    }),
  ),
  from: day(`YYYY-MM-DD (UTC); default 30 days with \`to\`, at most ${maxDays}`),
  to: day("The last day; default today"),
});

const UsageDaysBody = Type.Object({
  days: Type.Array(
    Type.Object({
      day: Type.String({ description: "YYYY-MM-DD" }),
      total_cost: Type.Number({ description: "Cents; sum of the items" }),
      items: Type.Array(
        Type.Object({
          id: Type.String({
            description:
              "Model, token_id of the key (empty: without a key), id of the project (empty: none), `id` of the scoped token, or end user (empty: none named, or erased)",
          }),
          name: Type.String({
            description: "Name of the model, of the key, of the project, or of the key that signed the token",
          }),
          key_id: nullable.string({
            description:
              "token_id of the key (empty: without a key), or of the key that signed the token; null: not by key",
          }),
          key_name: nullable.string({ description: "Name of that key, also of a revoked one; null: not by key" }),
          spending_limit: nullable.number({ description: "USD; only for scoped tokens" }),
          requests: Type.Integer(),
          input_tokens: Type.Integer(),
          output_tokens: Type.Integer(),
          cost: Type.Number({ description: "Cents" }),
        }),
      ),
    }),
  ),
  is_truncated: Type.Boolean({ description: "Only the most expensive items are included" }),
});
type UsageDaysBody = Static<typeof UsageDaysBody>;

const time = (description: string) => Type.Optional(Type.String({ maxLength: 40, description }));

const named = (more: object) => Type.String({ minLength: 1, maxLength: 256, pattern: "^[^\\u0000]*$", ...more });

const endReason = Type.Unsafe<EndReason>({ type: "string", enum: [...endReasons] });

const RequestsQuery = Type.Object({
  model: Type.Optional(named({})),
  key: Type.Optional(named({ description: "token_id of the key" })),
  user: Type.Optional(named({ description: "End user that the request named" })),
  status: Type.Optional(
    Type.String({
      maxLength: 3,
      pattern: "^[1-5]([0-9]{2}|xx)$",
      description: "HTTP status such as 429, or all of a hundred such as 4xx",
    }),
  ),
  end_reason: Type.Optional(endReason),
  failed: Type.Optional(
    Type.Boolean({
      default: false,
      description: "Only failed requests: end_reason is neither stop nor client_gone",
    }),
  ),
  from: time("Unix seconds, or now-7d (s, m, h, d, w, M), which is the default; time of the record"),
  to: time("Unix seconds or now, which is the default"),
  after: Type.Optional(named({ description: "Id of the last item of the previous page" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
});

const AdminRequestsQuery = Type.Object({
  account: named({ description: "uid of the account" }),
  ...RequestsQuery.properties,
});

const FailedQuery = Type.Object({
  from: Type.Optional(
    Type.String({ maxLength: 32, description: "Unix seconds, or now-1h (s, m, h, d, w, M), which is the default" }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 100 })),
});

/** Counts and durations of the usage record. */
const shown = Object.fromEntries(
  shownFields.map(({ column, shown: description }) => [column, Type.Integer(description ? { description } : {})]),
) as Record<ShownColumn, TInteger>;

const logged = {
  request_id: Type.String(),
  attempt: Type.Integer({ description: "2 and later: retries after an attempt without a response" }),
  counts: Type.Boolean({ description: "false: replaced by a later attempt" }),
  model: Type.String(),
  token_id: Type.String({ description: "Id of the key; empty: without a key" }),
  service_tier: Type.String({ enum: [...serviceTiers], description: "Tier that served the request" }),
  user: nullable.string({ description: "End user that the request named; null: none, or erased" }),
  end_reason: endReason,
  created_at: Type.Integer({ description: "Unix seconds" }),
  ended_at: Type.Integer({ description: "Unix seconds" }),
  ...shown,
  cost: Type.Number({ description: "Charged cents" }),
};
export const RequestRecord = Type.Object(logged);
export type RequestRecord = Static<typeof RequestRecord>;

const owner = {
  account: Type.String({ description: "uid" }),
  account_email: nullable.string({ description: "E-mail address, or the uid if the account was deleted" }),
};
export const AdminRequestRecord = Type.Object({
  ...logged,
  ...owner,
  deploy_id: Type.String(),
  instance_id: Type.String(),
});
export type AdminRequestRecord = Static<typeof AdminRequestRecord>;

const RequestPage = Type.Object({ requests: Type.Array(RequestRecord), has_more: Type.Boolean() });
const AdminRequestPage = Type.Object({ requests: Type.Array(AdminRequestRecord), has_more: Type.Boolean() });
export const RejectedRequest = Type.Object({
  request_id: Type.String(),
  created_at: Type.Integer({ description: "Unix seconds" }),
  status: Type.Integer({ description: "HTTP status" }),
  code: Type.String({ description: "Code of the error: /docs/errors" }),
  model: Type.String({
    description: "As the request named it; empty: none, a text that is no name, or the body was not read",
  }),
  token_id: Type.String({ description: "Id of the key; empty: without a key" }),
  path: Type.String({ description: "Path with the names of its parameters" }),
  client_request_id: nullable.string({ description: "x-request-id of the client" }),
  others: Type.Integer({
    description:
      "Later ones of the same minute and code that are not listed: at most 5 per code (1 after the first 300 of a day), 20 in all, and 2,000 a day are",
  }),
});
export type RejectedRequest = Static<typeof RejectedRequest>;
const RejectedPage = Type.Object({ requests: Type.Array(RejectedRequest), has_more: Type.Boolean() });
export const AdminRejectedRequest = Type.Object({ ...RejectedRequest.properties, ...owner });
export type AdminRejectedRequest = Static<typeof AdminRejectedRequest>;
const AdminRejectedPage = Type.Object({ requests: Type.Array(AdminRejectedRequest), has_more: Type.Boolean() });

const RejectedQuery = Type.Object({
  model: RequestsQuery.properties.model,
  key: RequestsQuery.properties.key,
  code: Type.Optional(Type.String({ maxLength: 64, pattern: "^[a-z0-9_]+$", description: "Code of the error" })),
  from: RequestsQuery.properties.from,
  to: RequestsQuery.properties.to,
  after: RequestsQuery.properties.after,
  limit: RequestsQuery.properties.limit,
});

const AdminRejectedQuery = Type.Object({
  account: Type.Optional(named({ description: "uid of the account; default: all accounts" })),
  ...RejectedQuery.properties,
});

const Attempts = Type.Object({
  attempts: Type.Array(RequestRecord),
  rejection: Type.Optional(RejectedRequest),
});
const AdminAttempts = Type.Object({
  attempts: Type.Array(AdminRequestRecord),
  rejection: Type.Optional(AdminRejectedRequest),
});

const params = Type.Object({ request_id: Type.String({ maxLength: 256, pattern: "^[^\\u0000]*$" }) });

export function addUsageLogRoutes(endpoints: Endpoints, { usageDays, requestLog, operator }: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  own.get("/v1/usage/days", {
    right: "readUsage",
    isOpenToOperators: true,
    summary: "Get usage by day and by model, key, scoped token or end user",
    query: UsageDaysQuery,
    answer: UsageDaysBody,
    refusals: [429],
    async handler({ caller, query: { by = "model", from, to } }) {
      const { days, isTruncated } = await usageDays.read(caller.account, by, from, to);
      return { days: days.map((day) => renderUsageDay(day, by)), is_truncated: isTruncated };
    },
  });

  const namesOf = (records: readonly { readonly account: AccountId }[]) =>
    operator.names(records.map(({ account }) => account));

  const pageOf = (account: AccountId, query: Static<typeof RequestsQuery>) => {
    const range = readRange(query.from ?? "now-7d", query.to, Date.now());
    const { model, key, user, status, end_reason: ended, failed: onlyFailed = false } = query;
    const statuses = status === undefined ? undefined : statusRange(status);
    const filter = { ...range, model, key, user, status: statuses, endReason: ended, onlyFailed };
    return requestLog.list(account, filter, query.after, query.limit ?? 50);
  };

  own.get("/v1/requests", {
    isOpenToOperators: true,
    summary: "List finished requests, newest first: figures without content",
    query: RequestsQuery,
    answer: RequestPage,
    refusals: [404, 429],
    async handler({ caller, query }) {
      const { requests, hasMore } = await pageOf(caller.account, query);
      return { requests: requests.map(renderRequest), has_more: hasMore };
    },
  });

  const rejectionsOf = (caller: AccountId, account: AccountId | undefined, query: Static<typeof RejectedQuery>) => {
    const { from = "now-7d", to, after, limit = 50, model, key, code } = query;
    const range = readRange(from, to, Date.now());
    return requestLog.rejections(caller, account, { ...range, model, key, code }, after, limit);
  };

  own.get("/v1/rejected-requests", {
    isOpenToOperators: true,
    summary: "List requests that were rejected before a host recorded them, newest first",
    query: RejectedQuery,
    answer: RejectedPage,
    refusals: [404, 429],
    async handler({ caller, query }) {
      const { rejections, hasMore } = await rejectionsOf(caller.account, caller.account, query);
      return { requests: rejections.map(renderRejection), has_more: hasMore };
    },
  });

  own.get("/v1/requests/:request_id", {
    isOpenToOperators: true,
    summary: "List attempts of a request, by its id or the x-request-id of the client",
    params,
    answer: Attempts,
    refusals: [404],
    async handler({ caller, params: { request_id: id } }) {
      const { attempts, rejection } = await requestLog.find(id, caller.account);
      return { attempts: attempts.map(renderRequest), ...(rejection && { rejection: renderRejection(rejection) }) };
    },
  });

  admin.get("/v1/admin/requests", {
    summary: "List finished requests of an account, newest first",
    query: AdminRequestsQuery,
    answer: AdminRequestPage,
    refusals: [404, 429],
    async handler({ query: { account, ...query } }) {
      const { requests, hasMore } = await pageOf(account as AccountId, query);
      const names = await namesOf(requests);
      return { requests: requests.map((one) => renderRequestForOperator(one, names)), has_more: hasMore };
    },
  });

  admin.get("/v1/admin/failed-requests", {
    summary: "List failed requests of all accounts, newest first",
    query: FailedQuery,
    answer: AdminRequestPage,
    refusals: [429],
    async handler({ caller, query: { from = "now-1h", limit = 100 } }) {
      const { fromMs } = readRange(from, undefined, Date.now());
      const { requests, hasMore } = await requestLog.failures(caller.account, fromMs, limit);
      const names = await namesOf(requests);
      return { requests: requests.map((one) => renderRequestForOperator(one, names)), has_more: hasMore };
    },
  });

  admin.get("/v1/admin/rejected-requests", {
    summary: "List requests of all accounts or one that were rejected before a host recorded them, newest first",
    query: AdminRejectedQuery,
    answer: AdminRejectedPage,
    refusals: [404, 429],
    async handler({ caller, query: { account, ...query } }) {
      const { rejections, hasMore } = await rejectionsOf(caller.account, account as AccountId | undefined, query);
      const names = await namesOf(rejections);
      return { requests: rejections.map((one) => renderRejectionForOperator(one, names)), has_more: hasMore };
    },
  });

  admin.get("/v1/admin/requests/:request_id", {
    summary: "List attempts of a request of any account",
    params,
    answer: AdminAttempts,
    refusals: [404],
    async handler({ params: { request_id: id } }) {
      const { attempts, rejection } = await requestLog.find(id, undefined);
      const names = await namesOf(rejection ? [rejection] : attempts);
      return {
        attempts: attempts.map((one) => renderRequestForOperator(one, names)),
        ...(rejection && { rejection: renderRejectionForOperator(rejection, names) }),
      };
    },
  });
}

/** `429` or `4xx`. */
function statusRange(text: string): { readonly min: number; readonly max: number } {
  return { min: Number(text.replace("xx", "00")), max: Number(text.replace("xx", "99")) };
}

/** Returns the id of a scoped token from its budget, whose prefix is the kind of budget. */
export const tokenIdOf = (budget: string): string => budget.replace(/^jwt\//, "");

function renderUsageDay({ day, items, totalCost }: UsageDay, by: UsageDimension): UsageDaysBody["days"][number] {
  return {
    day,
    total_cost: cents(totalCost),
    items: items.map((item) => ({
      id: by === "token" ? tokenIdOf(item.of) : item.of,
      name: item.name,
      key_id: item.key ?? null,
      key_name: item.keyName ?? null,
      spending_limit: item.limit === null ? null : toUsd(nano(item.limit)),
      requests: item.requests,
      input_tokens: item.inputTokens,
      output_tokens: item.outputTokens,
      cost: cents(item.cost),
    })),
  };
}

const shownOf = (one: LoggedRequest) =>
  Object.fromEntries(shownFields.map(({ name, column }) => [column, one[name as ShownUsage]])) as Record<
    ShownColumn,
    number
  >;

function renderRequest(one: LoggedRequest): RequestRecord {
  return {
    request_id: one.id,
    attempt: one.attempt,
    counts: !one.isVoided,
    model: one.model,
    token_id: one.key,
    service_tier: one.tier,
    user: one.user,
    end_reason: one.endReason as EndReason,
    created_at: unixSeconds(one.admittedAtMs),
    ended_at: unixSeconds(one.endedAtMs),
    ...shownOf(one),
    cost: cents(nano(one.charge)),
  };
}

const renderRejection = (one: Rejection): RejectedRequest => ({
  request_id: one.id,
  created_at: unixSeconds(one.atMs),
  status: one.status,
  code: one.code,
  model: one.model,
  token_id: one.key,
  path: one.route,
  client_request_id: one.label,
  others: one.otherCount,
});

type Names = ReadonlyMap<AccountId, AccountName>;

const renderRejectionForOperator = (one: Rejection, names: Names): AdminRejectedRequest => ({
  ...renderRejection(one),
  account: one.account,
  account_email: names.get(one.account)?.email ?? null,
});

const renderRequestForOperator = (one: LoggedRequest, names: Names): AdminRequestRecord => ({
  ...renderRequest(one),
  account: one.account,
  account_email: names.get(one.account)?.email ?? null,
  deploy_id: one.deployId,
  instance_id: one.instanceId,
});
