// Usage by end user, as JSON or CSV. These paths are our own addition to the interface.
import { type Static, Type } from "typebox";
import { csv } from "../../../proto/csv.ts";
import { type EndUserUse, maxEndUserDays } from "../../billing/end-users.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { MoneyFeatures } from "./features.ts";
import { cents } from "./payment-routes.ts";

const text = (maxLength: number, more: object) =>
  Type.String({ minLength: 1, maxLength, pattern: "^[^\\u0000]*$", ...more });
const maxPage = 10_000;

const EndUsersQuery = Type.Object({
  from: Type.Optional(
    text(32, { description: `YYYY-MM-DD (UTC); default 30 days with \`to\`, at most ${maxEndUserDays}` }),
  ),
  to: Type.Optional(text(32, { description: "The last day; default today" })),
  by: Type.Optional(
    Type.Unsafe<"day" | "month">({
      type: "string",
      enum: ["day", "month"],
      default: "month",
      description: "Length of the sums' period; a month of which the period has a part is a sum of that part",
    }),
  ),
  model: Type.Optional(text(256, {})),
  key: Type.Optional(text(256, { description: "token_id of a key" })),
  user: Type.Optional(text(256, { description: "Only this end user" })),
  order: Type.Optional(
    Type.Unsafe<"name" | "cost">({
      type: "string",
      enum: ["name", "cost"],
      default: "name",
      description: "By period and name; or the highest cost first, of which there is one page",
    }),
  ),
  after: Type.Optional(text(2_048, { description: "`next` of the previous page" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: maxPage, default: 1_000 })),
  format: Type.Optional(
    Type.Unsafe<"json" | "csv">({
      type: "string",
      enum: ["json", "csv"],
      description: "csv, as `Accept: text/csv`: the header `link` has the next page",
    }),
  ),
});

const UserSums = Type.Object({
  period: Type.String({ description: "YYYY-MM-DD or YYYY-MM (UTC), by time of posting" }),
  user: nullable.string({
    description: "End user as requests named it; null: erased ones, and those beyond 10,000 in a month",
  }),
  requests: Type.Integer(),
  input_tokens: Type.Integer(),
  output_tokens: Type.Integer(),
  cost: Type.Number({ description: "Cents" }),
});
type UserSums = Static<typeof UserSums>;

const EndUsersBody = Type.Object({
  users: Type.Array(UserSums),
  next: nullable.string({ description: "`after` of the next page; null: this is the last one" }),
});

const columns = ["period", "user", "requests", "input_tokens", "output_tokens", "cost"] as const;

export function addEndUsersRoutes(endpoints: Endpoints, { endUsers }: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });

  own.get("/v1/usage/users", {
    right: "readUsage",
    isOpenToOperators: true,
    summary: "Get usage by end user and month or day, as JSON or CSV",
    query: EndUsersQuery,
    answer: EndUsersBody,
    refusals: [429],
    async handler({ caller, query, reply }) {
      const { limit = 1_000, format } = query;
      const { users, next } = await endUsers.list(caller.account, { ...query, limit });
      const rows = users.map(renderUser);
      const isCsv = format === "csv" || (format === undefined && wantsCsv(reply.request.headers.accept));
      if (!isCsv) return { users: rows, next: next ?? null };
      if (next !== undefined) {
        const more = new URLSearchParams({ ...(reply.request.query as Record<string, string>), after: next });
        reply.header("link", `</v1/usage/users?${more}>; rel="next"`);
      }
      const lines = rows.map((row) => columns.map((column) => String(row[column] ?? "")));
      return reply.type("text/csv; charset=utf-8").send(`${csv(columns, lines)}\r\n`);
    },
  });

  own.delete("/v1/usage/users", {
    summary: "Erase the name of an end user; its sums stay under no name",
    query: Type.Object({ user: text(256, { description: "End user as requests named it" }) }),
    refusals: [404],
    async handler({ caller, query: { user } }) {
      await endUsers.erase(caller.account, user);
    },
  });
}

/** Other media types in the header, `*` included, are answered with JSON. */
const wantsCsv = (accept: string | undefined): boolean =>
  accept !== undefined && /^\s*text\/csv\b/i.test(accept) && !/application\/json/i.test(accept);

const renderUser = ({ period, user, requests, inputTokens, outputTokens, cost }: EndUserUse): UserSums => ({
  period,
  user: user ?? null,
  requests,
  input_tokens: inputTokens,
  output_tokens: outputTokens,
  cost: cents(cost),
});
