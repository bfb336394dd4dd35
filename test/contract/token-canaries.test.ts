// Secrets given to the routes of keys and tokens, in every place they may stand: none reaches a log line or an error body.
import { expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { fakePorts } from "../fakes/ports.ts";

const canary = "stk_canary0123456789012345678901234567890123456789ab";
const jwt = "jwt:canary.payload.signature";

it("no secret of a request to the routes of keys and tokens is logged or told back", async () => {
  const { deps, logLines } = fakePorts();
  Object.assign(deps.tokens, { get: () => Promise.reject(new DatabaseUnavailable("unreachable")) });
  const app = await createHttp(deps);
  const own = { authorization: "Bearer stk_test_key_of_ada" };
  const calls = [
    { method: "GET", url: `/v1/api-tokens/${canary}`, headers: own },
    { method: "DELETE", url: `/v1/api-tokens/${canary}`, headers: own },
    { method: "GET", url: `/v1/api-tokens/id/${canary}`, headers: own },
    { method: "GET", url: `/v1/scoped-jwt?jwtoken=${jwt}`, headers: own },
    { method: "GET", url: `/v1/scoped-jwt?jwtoken=${jwt}&jwtoken=${jwt}`, headers: own },
    { method: "POST", url: "/v1/scoped-jwt", headers: own, body: `{"api_key_name":["${canary}"],` },
    { method: "POST", url: "/v1/scoped-jwt", headers: own, body: `{"api_key_name":["${canary}"]}` },
    {
      method: "POST",
      url: "/v1/api-tokens",
      headers: { ...own, "idempotency-key": `${canary}ü` },
      body: '{"name":"x"}',
    },
    { method: "GET", url: "/v1/api-tokens", headers: { authorization: `Bearer ${canary}` } },
    { method: "GET", url: "/v1/api-tokens", headers: { authorization: `Bearer ${jwt}` } },
    { method: "GET", url: "/v1/api-tokens", headers: { "xi-api-key": canary, "x-api-key": jwt } },
  ] as const;
  for (const call of calls) {
    const answer = await app.inject(call);
    expect(answer.statusCode, call.url).toBeGreaterThanOrEqual(400);
    expect(answer.body).not.toContain("canary");
  }
  await app.close();
  expect(logLines).toHaveLength(calls.length);
  expect(JSON.stringify(logLines)).not.toContain("canary");
});
