// Usage by day and the request log: our own addition to the interface.
import { type Static, type TInteger, Type } from "typebox";
import { type ShownColumn, shownFields } from "../../../proto/usage-record.ts";
import { maxDays, usageDimensions } from "../../billing/usage-days.ts";
import { nullable } from "../inference/sampling-schemas.ts";

const day = (description: string) => Type.Optional(Type.String({ maxLength: 32, description }));

export const UsageDaysQuery = Type.Object({
  by: Type.Optional(
    Type.Unsafe<(typeof usageDimensions)[number]>({
      type: "string",
      enum: [...usageDimensions],
      default: "model",
      description: "token: only scoped tokens with their own limit; others are not recorded",
    }),
  ),
  from: day(`YYYY-MM-DD (UTC); default 30 days with \`to\`, at most ${maxDays}`),
  to: day("The last day; default today"),
});

export const UsageDaysBody = Type.Object({
  days: Type.Array(
    Type.Object({
      day: Type.String({ description: "YYYY-MM-DD" }),
      total_cost: Type.Number({ description: "Cents; sum of the items" }),
      items: Type.Array(
        Type.Object({
          id: Type.String({
            description: "Model, token_id of the key (empty: without a key), or `id` of the scoped token",
          }),
          name: Type.String({ description: "Name of the model, of the key, or of the key that signed the token" }),
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
export type UsageDaysBody = Static<typeof UsageDaysBody>;

const time = (description: string) => Type.Optional(Type.String({ description }));

const named = (more: object) => Type.String({ minLength: 1, maxLength: 256, pattern: "^[^\\u0000]*$", ...more });

export const RequestsQuery = Type.Object({
  model: Type.Optional(named({})),
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

export const AdminRequestsQuery = Type.Object({
  account: named({ description: "uid of the account" }),
  ...RequestsQuery.properties,
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
  end_reason: Type.String({
    enum: ["stop", "client_gone", "refused", "engine_error", "engine_timeout", "drained", "lost"],
  }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  ended_at: Type.Integer({ description: "Unix seconds" }),
  ...shown,
  cost: Type.Number({ description: "Charged cents" }),
};
export const RequestRecord = Type.Object(logged);
export type RequestRecord = Static<typeof RequestRecord>;

export const AdminRequestRecord = Type.Object({
  ...logged,
  account: Type.String(),
  deploy_id: Type.String(),
  instance_id: Type.String(),
});
export type AdminRequestRecord = Static<typeof AdminRequestRecord>;

export const RequestPage = Type.Object({ requests: Type.Array(RequestRecord), has_more: Type.Boolean() });
export const AdminRequestPage = Type.Object({ requests: Type.Array(AdminRequestRecord), has_more: Type.Boolean() });
export const Attempts = Type.Object({ attempts: Type.Array(RequestRecord) });
export const AdminAttempts = Type.Object({ attempts: Type.Array(AdminRequestRecord) });
