import { type Static, Type } from "typebox";
import type { MemberId, ProjectId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { ApiToken } from "../../accounts/api-tokens.ts";
import { type KeyRole, type KeyRules, keyRoles, noRules } from "../../accounts/key-rules.ts";
import { guarded, roleRefusal } from "../../accounts/permissions.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { apiKeyNotFound } from "../errors/errors.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { tokenIdOf } from "../money/usage-log-routes.ts";
import { givenLimit, monthlyLimit } from "./account-schemas.ts";
import type { AccountFeatures } from "./features.ts";

const allowedIps = Type.Unsafe<string[] | null>({
  type: ["array", "null"],
  items: { type: "string", maxLength: 60 },
  description: "Addresses and CIDR blocks the key and the tokens signed with it may be used from; null: anywhere",
});

const rules = {
  allowed_ips: allowedIps,
  allowed_models: Type.Unsafe<string[] | null>({
    type: ["array", "null"],
    items: { type: "string", minLength: 1, maxLength: 256, pattern: "^[^\\u0000]*$" },
    minItems: 1,
    maxItems: 100,
    description: "Exact names of the models that the key and the tokens signed with it may run; null: any",
  }),
  expires_at: nullable.integer({ description: "Unix seconds, at most ten years away; null: never" }),
  requests_per_minute: nullable.integer({ minimum: 1, maximum: 1_000_000, description: "null: no limit of its own" }),
  tokens_per_minute: nullable.integer({
    minimum: 1,
    maximum: 1_000_000_000_000,
    description: "Input and output; null: no limit of its own",
  }),
  role: Type.Unsafe<KeyRole>({
    type: "string",
    enum: keyRoles,
    description:
      "admin: everything the account may do; read: reading only; inference: inference and the list of models",
  }),
  trusts_user_headers: Type.Boolean({
    description: "Requests are counted for the end user in their X-OpenWebUI-User-Id or X-OpenWebUI-User-Email header",
  }),
};

const keyLimit = monthlyLimit("the key and the tokens signed with it");

const ApiTokenBody = Type.Object({
  token: Type.String({ description: "The secret; masked when read by id or in a list" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  name: Type.String(),
  token_id: Type.String(),
  ...rules,
  monthly_limit: keyLimit,
  member_id: nullable.string({
    description: "In an organization: the member whose key it is, and whose role bounds it; null: the account's own",
  }),
  project_id: nullable.string({ description: "Project whose budget it spends; null: none" }),
  fragment: Type.String({ description: "Last characters of the secret" }),
  last_used_at: nullable.integer({ description: "Unix seconds, about half a minute late" }),
});
type ApiTokenBody = Static<typeof ApiTokenBody>;

const ApiTokenChange = Type.Partial(Type.Object({ ...rules, monthly_limit: keyLimit }));
type ApiTokenChange = Static<typeof ApiTokenChange>;

const projectId = nullable.string({
  maxLength: 64,
  description: "Project whose budget it spends; it cannot leave it. Default: the first of the member's, or none",
});

const NewApiToken = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, description: "Unique among the account's keys" }),
  ...ApiTokenChange.properties,
  member_id: Type.Optional(
    nullable.string({ maxLength: 64, description: "Service account that the key is for; default: the caller" }),
  ),
  project_id: Type.Optional(projectId),
});

export const NewScopedJwt = Type.Object({
  api_key_name: Type.String({ minLength: 1, description: "Name of the API key that signs; it is charged" }),
  models: Type.Optional(
    nullable.array(Type.String({ minLength: 1 }), { description: "Exact names; default: any model" }),
  ),
  expires_delta: Type.Optional(
    nullable.integer({ exclusiveMinimum: 0, maximum: 31_536_000, description: "Seconds; default: 1 year" }),
  ),
  expires_at: Type.Optional(nullable.integer({ description: "Unix seconds, instead of expires_delta" })),
  spending_limit: Type.Optional(
    nullable.number({ minimum: 0, maximum: 9_000_000_000, description: "USD; default: no limit" }),
  ),
});

export const ScopedJwtState = Type.Object({
  id: Type.String({ description: "Id in `GET /v1/usage/days?by=token`" }),
  expires_at: Type.Integer({ description: "Unix seconds" }),
  models: Type.Optional(Type.Array(Type.String(), { description: "Absent: any model" })),
  spending_limit: Type.Optional(Type.Number({ description: "USD. Absent: no limit" })),
  spending_current: Type.Number({ description: "USD settled so far" }),
});

/** The rules that the body names. */
function givenRules(body: ApiTokenChange): Partial<KeyRules> {
  const { allowed_ips, allowed_models, expires_at, requests_per_minute, tokens_per_minute, role } = body;
  return {
    ...(allowed_ips !== undefined && { allowedIps: allowed_ips }),
    ...(allowed_models !== undefined && { allowedModels: allowed_models }),
    ...(expires_at !== undefined && { expiresAtMs: expires_at === null ? null : expires_at * 1000 }),
    ...(requests_per_minute !== undefined && { requestsPerMinute: requests_per_minute }),
    ...(tokens_per_minute !== undefined && { tokensPerMinute: tokens_per_minute }),
    ...(role !== undefined && { role }),
    ...(body.trusts_user_headers !== undefined && { trustsUserHeaders: body.trusts_user_headers }),
  };
}

export function addTokenRoutes(endpoints: Endpoints, { tokens, members }: AccountFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key", holdsSecrets: true });

  own.post("/v1/api-tokens", {
    right: "ownKeys",
    summary: "Create an API key",
    needsRecentSignIn: true,
    idempotent: true,
    bodyLimitBytes: mediumBodyBytes,
    body: NewApiToken,
    answer: ApiTokenBody,
    refusals: [404, 409],
    async handler({ caller, body, reply }) {
      const member = await members.holderOf(caller, body.member_id as MemberId | null | undefined);
      const isOwn = member === (caller.member?.id ?? null);
      return render(
        await tokens.create(
          caller.account,
          body.name,
          { ...noRules, ...givenRules(body) },
          guarded(isOwn ? "ownKeys" : "manageKeys", caller, actOf(caller, reply)),
          givenLimit(body),
          { member, project: (body.project_id ?? null) as ProjectId | null },
        ),
      );
    },
  });

  own.get("/v1/api-tokens", {
    right: "readAccount",
    isOpenToOperators: true,
    summary: "List the account's API keys, masked",
    answer: Type.Array(ApiTokenBody),
    handler: async ({ caller }) => (await tokens.list(caller.account)).map(render),
  });

  for (const { path, named, nameOf } of [
    { path: "/v1/api-tokens/id/:api_token", named: "its token_id", nameOf: idAlone },
    { path: "/v1/api-tokens/:api_token", named: "its token_id or the key itself", nameOf: asGiven },
  ] as const) {
    const one = { answer: ApiTokenBody, refusals: [404] };

    own.get(path, {
      right: "readAccount",
      ...one,
      summary: `Get an API key, by ${named}`,
      handler: async ({ caller, params }) => found(await tokens.get(caller.account, nameOf(params.api_token))),
    });

    own.patch(path, {
      right: "ownKeys",
      ...one,
      needsRecentSignIn: true,
      summary: `Change what an API key may do, by ${named}; absent fields are unchanged`,
      bodyLimitBytes: mediumBodyBytes,
      body: ApiTokenChange,
      async handler({ caller, params, body, reply }) {
        const limit = givenLimit(body);
        // Who set it may be somebody else, who pays.
        const refusal = limit === undefined ? undefined : roleRefusal("changeMoney", caller);
        if (refusal) throw refusal;
        return found(
          await tokens.change(caller, nameOf(params.api_token), givenRules(body), actOf(caller, reply), limit),
        );
      },
    });

    own.delete(path, {
      right: "ownKeys",
      ...one,
      needsRecentSignIn: true,
      summary: `Revoke an API key and the tokens signed with it, by ${named}`,
      handler: async ({ caller, params, reply }) =>
        found(await tokens.revoke(caller, nameOf(params.api_token), actOf(caller, reply))),
    });
  }
}

const asGiven = (name: string): string => name;

/** Refuses secrets: the path with `id` accepts only ids, and no id has the prefix of a secret. */
function idAlone(name: string): string {
  if (name.startsWith("stk_")) throw apiKeyNotFound();
  return name;
}

function found(token: ApiToken | undefined): ApiTokenBody {
  if (!token) throw apiKeyNotFound();
  return render(token);
}

const render = (token: ApiToken): ApiTokenBody => ({
  token: token.token,
  created_at: unixSeconds(token.createdAtMs),
  name: token.name,
  token_id: token.key,
  allowed_ips: token.allowedIps && [...token.allowedIps],
  allowed_models: token.allowedModels && [...token.allowedModels],
  expires_at: unixSecondsOrNull(token.expiresAtMs),
  requests_per_minute: token.requestsPerMinute,
  tokens_per_minute: token.tokensPerMinute,
  role: token.role,
  monthly_limit: token.monthlyLimit === null ? null : toUsd(nano(token.monthlyLimit)),
  trusts_user_headers: token.trustsUserHeaders,
  member_id: token.memberId,
  project_id: token.projectId,
  fragment: token.fragment,
  last_used_at: unixSecondsOrNull(token.lastUsedAtMs),
});

export function addScopedJwtRoutes(endpoints: Endpoints, { scopedJwts }: AccountFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key", holdsSecrets: true });

  own.post("/v1/scoped-jwt", {
    right: "ownKeys",
    idempotent: true,
    summary: "Sign a token that is restricted to models, to a time and to an amount",
    bodyLimitBytes: mediumBodyBytes,
    needsRecentSignIn: true,
    body: NewScopedJwt,
    answer: Type.Object({ token: Type.String({ description: "jwt:<header>.<payload>.<signature>" }) }),
    refusals: [404, 409, 429],
    handler: async ({ caller, body, reply }) => ({
      token: await scopedJwts.mint(
        caller,
        {
          apiKeyName: body.api_key_name,
          models: (body.models ?? undefined) as string[] | undefined,
          expiresAtS: body.expires_at ?? undefined,
          expiresDeltaS: body.expires_delta ?? undefined,
          limitUsd: body.spending_limit ?? undefined,
        },
        actOf(caller, reply),
      ),
    }),
  });

  own.get("/v1/scoped-jwt", {
    right: "readUsage",
    summary: "Get the restrictions and the spending of a scoped token of this account",
    query: Type.Object({ jwtoken: Type.String({ maxLength: 8192, description: "The token" }) }),
    answer: ScopedJwtState,
    refusals: [404],
    async handler({ caller, query }) {
      const { budget, expiresAtS, models, limit, spent } = await scopedJwts.inspect(caller.account, query.jwtoken);
      return {
        id: tokenIdOf(budget),
        expires_at: expiresAtS,
        ...(models && { models: [...models] }),
        ...(limit !== null && { spending_limit: toUsd(limit) }),
        spending_current: toUsd(spent),
      };
    },
  });
}
