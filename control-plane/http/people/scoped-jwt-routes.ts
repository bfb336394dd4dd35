import { Type } from "typebox";
import { toUsd } from "../../../proto/money.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { tokenIdOf } from "../money/render-usage-log.ts";
import type { PeopleFeatures } from "./features.ts";
import { NewScopedJwt, ScopedJwtState } from "./tokens-schemas.ts";

export function addScopedJwtRoutes(endpoints: Endpoints, { scopedJwts }: PeopleFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key", holdsSecrets: true });

  own.post("/v1/scoped-jwt", {
    idempotent: true,
    summary: "Sign a token that is restricted to models, to a time and to an amount",
    bodyLimitBytes: mediumBodyBytes,
    needsRecentSignIn: true,
    body: NewScopedJwt,
    answer: Type.Object({ token: Type.String({ description: "jwt:<header>.<payload>.<signature>" }) }),
    refusals: [404, 409],
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

  own.get("/v1/scoped-jwt", {
    summary: "Get the restrictions and the spending of a scoped token of this account",
    query: Type.Object({ jwtoken: Type.String({ description: "The token" }) }),
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
