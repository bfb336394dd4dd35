import { Type } from "typebox";
import { toUsd } from "../../../proto/money.ts";
import { actOf } from "../act-of.ts";
import type { Endpoints } from "../endpoint.ts";
import { tokenIdOf } from "../render-usage-log.ts";
import { NewScopedJwt, ScopedJwtState } from "../schemas/tokens.ts";
import type { HttpDeps } from "../verbs.ts";

export function addScopedJwtRoutes(endpoints: Endpoints, { scopedJwts }: Pick<HttpDeps, "scopedJwts">): void {
  const common = { path: "/v1/scoped-jwt", tag: "account", access: "key", holdsSecrets: true } as const;
  endpoints.add({
    ...common,
    method: "POST",
    idempotent: true,
    summary: "Sign a token that is restricted to models, to a time and to an amount",
    body: NewScopedJwt,
    answer: Type.Object({ token: Type.String({ description: "jwt:<header>.<payload>.<signature>" }) }),
    refusals: [404, 409, 503],
    handler: async ({ caller, body, reply }) => ({
      token: await scopedJwts.mint(
        caller.account,
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

  endpoints.add({
    ...common,
    method: "GET",
    summary: "What a token that this key signed may do, and what was spent with it",
    query: Type.Object({ jwtoken: Type.String({ description: "The token" }) }),
    answer: ScopedJwtState,
    refusals: [404, 503],
    async handler({ caller, query }) {
      const { budget, expiresAtS, models, limit, spent } = await scopedJwts.inspect(caller, query.jwtoken);
      return {
        id: tokenIdOf(budget),
        expires_at: expiresAtS,
        models: models && [...models],
        spending_limit: limit === null ? null : toUsd(limit),
        spending_current: toUsd(spent),
      };
    },
  });
}
