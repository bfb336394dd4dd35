// Inference accepts no cookies: a page calls it with a token that a key of the account signs.
import type { Responses } from "../../proto/gen/responses.ts";
import { type Api, ApiError } from "../api/client.ts";
import { text } from "../text/assets.ts";

type Key = Responses["GET /v1/api-tokens"][number];

/** Creates a token that expires in 15 minutes. `model` undefined: for any. Throws ApiError. */
export async function inferenceToken(api: Api, model: string | undefined): Promise<string> {
  const [key] = await api.call<readonly Key[]>("GET", "/v1/api-tokens");
  if (!key) throw new ApiError(text.needsKey, 0);
  const request = { api_key_name: key.name, expires_delta: 900, ...(model === undefined ? {} : { models: [model] }) };
  return (await api.call<Responses["POST /v1/scoped-jwt"]>("POST", "/v1/scoped-jwt", request)).token;
}
