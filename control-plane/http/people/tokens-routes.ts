import { Type } from "typebox";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import type { ApiToken } from "../../accounts/api-tokens.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { apiKeyNotFound } from "../errors/errors.ts";
import type { PeopleFeatures } from "./features.ts";
import { ApiTokenBody, ApiTokenChange, NewApiToken } from "./tokens-schemas.ts";

export function addTokenRoutes(endpoints: Endpoints, { tokens }: PeopleFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key", holdsSecrets: true });

  own.post("/v1/api-tokens", {
    summary: "Create an API key",
    needsRecentSignIn: true,
    idempotent: true,
    bodyLimitBytes: mediumBodyBytes,
    body: NewApiToken,
    answer: ApiTokenBody,
    refusals: [409],
    handler: async ({ caller, body, reply }) =>
      render(
        await tokens.create(
          caller.account,
          { name: body.name, allowedIps: body.allowed_ips ?? null },
          actOf(caller, reply),
        ),
      ),
  });

  own.get("/v1/api-tokens", {
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
      ...one,
      summary: `Get an API key, by ${named}`,
      handler: async ({ caller, params }) => found(await tokens.get(caller.account, nameOf(params.api_token))),
    });

    own.patch(path, {
      ...one,
      needsRecentSignIn: true,
      summary: `Change the allowed addresses of an API key, by ${named}`,
      bodyLimitBytes: mediumBodyBytes,
      body: ApiTokenChange,
      handler: async ({ caller, params, body, reply }) =>
        found(await tokens.setAllowedIps(caller, nameOf(params.api_token), body.allowed_ips, actOf(caller, reply))),
    });

    own.delete(path, {
      ...one,
      needsRecentSignIn: true,
      summary: `Revoke an API key and the tokens signed with it, by ${named}`,
      handler: async ({ caller, params, reply }) =>
        found(await tokens.revoke(caller.account, nameOf(params.api_token), actOf(caller, reply))),
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
  fragment: token.fragment,
  last_used_at: unixSecondsOrNull(token.lastUsedAtMs),
});
