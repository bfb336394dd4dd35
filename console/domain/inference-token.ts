// Inference accepts no cookies: a page calls it with a token that a key of the account signs.
import type { Responses } from "../../proto/gen/responses.ts";
import { actingAs } from "../api/acting.ts";
import { type Api, ApiError } from "../api/client.ts";
import { text } from "../text/assets.ts";

export type Key = Responses["GET /v1/api-tokens"][number];

const lifeSeconds = 900;
/** A token is used for this long, so that a request that waits still finds it valid. */
const reuseMs = 600_000;

interface Signed {
  readonly token: Promise<string>;
  readonly untilMs: number;
}
/** Tokens of each API client, which belongs to one session. */
const kept = new WeakMap<Api, Map<string, Signed>>();

/** A token that expires in 15 minutes. `model` undefined: for any. Throws ApiError. */
export function inferenceToken(api: Api, model: string | undefined): Promise<string> {
  const tokens = kept.get(api) ?? new Map<string, Signed>();
  kept.set(api, tokens);
  // While an operator views another account, their own tokens must not be used.
  const name = `${actingAs() ?? ""} ${model ?? ""}`;
  const before = tokens.get(name);
  if (before && before.untilMs > Date.now()) return before.token;
  const token = sign(api, model);
  tokens.set(name, { token, untilMs: Date.now() + reuseMs });
  token.catch(() => tokens.delete(name));
  return token;
}

/** The next request signs another one, because the key was deleted or the account changed. */
export function forgetTokens(api: Api): void {
  kept.delete(api);
}

async function sign(api: Api, model: string | undefined): Promise<string> {
  const [keys, { member_id: own }] = await Promise.all([
    api.call<readonly Key[]>("GET", "/v1/api-tokens"),
    api.call<Responses["GET /v1/permissions"]>("GET", "/v1/permissions"),
  ]);
  // A member of an organization signs with their own keys.
  const key = keys.find((one) => one.member_id === own && canSign(one, model, Date.now() / 1000));
  if (!key) throw new ApiError(text.needsKey, 0);
  const request = {
    api_key_name: key.name,
    expires_delta: lifeSeconds,
    ...(model === undefined ? {} : { models: [model] }),
  };
  return (await api.call<Responses["POST /v1/scoped-jwt"]>("POST", "/v1/scoped-jwt", request)).token;
}

/** The key may run the model. `model` undefined: any. */
export function canSign(
  { role, expires_at: expiresAt, allowed_models: allowed }: Pick<Key, "role" | "expires_at" | "allowed_models">,
  model: string | undefined,
  nowSeconds: number,
): boolean {
  if (role === "read") return false;
  if (expiresAt !== null && expiresAt <= nowSeconds) return false;
  return allowed === null || (model !== undefined && allowed.includes(model));
}
