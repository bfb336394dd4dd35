// OpenAI's ephemeral keys for pages that open a realtime session: scoped tokens of the caller's own key, for minutes.
import { type Static, Type } from "typebox";
import { randomId } from "../../../proto/ids.ts";
import { steadyTime } from "../../../proto/steady-time.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { jwtPrefix } from "../../accounts/jwt-format.ts";
import { badRequest, forbidden } from "../../service-error.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { initialConfig, renderConfig, SessionUpdate, updated } from "../inference/realtime/session-config.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { ephemeralPrefix } from "../sockets/socket-credential.ts";
import type { AccountFeatures } from "./features.ts";

const seconds = { usual: 600, min: 10, max: 7_200 };

export const ClientSecretRequest = Type.Object({
  expires_after: Type.Optional(
    Type.Object({
      anchor: Type.Optional(Type.Unsafe<string>({ type: "string", enum: ["created_at"] })),
      seconds: Type.Optional(nullable.integer({ minimum: seconds.min, maximum: seconds.max, default: seconds.usual })),
    }),
  ),
  session: Type.Optional(SessionUpdate.properties.session),
});
type ClientSecretRequest = Static<typeof ClientSecretRequest>;

export function addClientSecretRoutes(endpoints: Endpoints, { tokens, scopedJwts }: AccountFeatures): void {
  const own = endpoints.with({ tag: "inference", access: "key", dialect: "compat", holdsSecrets: true });
  own.post("/v1/realtime/client_secrets", {
    summary: "Create a short-lived key for a page that opens a realtime transcription session",
    right: "infer",
    body: ClientSecretRequest,
    answer: Type.Object({
      value: Type.String({
        description: "ek_...: opens realtime sessions with the session's model, billed to the caller's key",
      }),
      expires_at: Type.Integer({ description: "Unix seconds" }),
      session: Type.Object({}, { additionalProperties: true, description: "The page sends it in `session.update`" }),
    }),
    refusals: [400, 404, 429],
    async handler({ caller, body, reply }) {
      const { expires_after: after, session } = body as ClientSecretRequest;
      if (caller.key === "") throw needsKey();
      const token = await tokens.get(caller.account, caller.key);
      const config = session ? updated(initialConfig, { session }) : initialConfig;
      if (config.model === undefined) throw needsModel();
      const expiresAtS = unixSeconds(steadyTime.nowMs()) + (after?.seconds ?? seconds.usual);
      const request = {
        apiKeyName: token?.name ?? "",
        models: [config.model],
        expiresAtS,
        expiresDeltaS: undefined,
        limitUsd: undefined,
        scope: "realtime",
      } as const;
      const minted = await scopedJwts.mint(caller, request, actOf(caller, reply));
      return {
        value: ephemeralPrefix + minted.slice(jwtPrefix.length),
        expires_at: expiresAtS,
        session: renderConfig(`sess_${randomId(20)}`, config),
      };
    },
  });
}

/** A key in a page must not reach other models. */
const needsModel = () =>
  badRequest("model_required", "The key is for one model. Name it in session.audio.input.transcription.model.", {
    param: "session.audio.input.transcription.model",
  });

/** A browser session has no key to sign with. */
const needsKey = () =>
  forbidden("api_key_required", "Ephemeral keys are signed with an API key. Send one instead of a session.");
