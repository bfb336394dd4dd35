// What a session must prove before it changes anything.
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { recentSignInMs } from "../../control-plane/accounts/sessions.ts";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { ada, adasSession, apiKey, type FakePorts, fakePorts } from "../fakes/ports.ts";

const cookie = `session=${adasSession.cookie}`;
const proof = { ticket: "ticket-of-ada", code: "123456" };
const newFactor = { ...proof, name: "telephone" };
const policy = { second_factor: "operators" };
const reset = `DELETE /v1/admin/accounts/${ada.account}/factors` as const;

describe("a browser session", () => {
  let ports: FakePorts;
  let app: FastifyInstance;
  beforeAll(async () => {
    ports = fakePorts();
    app = await createHttp(ports.deps);
  });
  beforeEach(() => open({}));
  afterAll(() => app.close());

  const open = (change: object) => {
    const session = { ...adasSession, caller: { ...adasSession.caller, isAdmin: true }, ...change };
    (ports.deps.sessions as unknown as { open: Map<string, object> }).open.set(adasSession.cookie, session);
  };
  const ask = (call: string, body?: object) => {
    const [method, url] = call.split(" ") as ["POST", string];
    return app.inject({
      method,
      url,
      headers: { cookie, "x-csrf-token": adasSession.csrfToken, "content-type": "application/json" },
      body: JSON.stringify(body ?? {}),
    });
  };

  it.each([
    ["POST /v1/api-tokens", { name: "new" }],
    ["PATCH /v1/api-tokens/id/key-ada", { allowed_ips: null }],
    ["DELETE /v1/api-tokens/id/key-ada", undefined],
    [`DELETE /v1/api-tokens/${apiKey}`, undefined],
    ["POST /v1/scoped-jwt", { api_key_name: "auto" }],
    ["POST /v1/ssh_keys", { name: "laptop", key: "ssh-ed25519 AAAA" }],
    ["POST /v1/me/password", { password: "long enough 12" }],
    ["PATCH /v1/me", { email: "new@example.com" }],
    ["DELETE /v1/me", undefined],
    ["POST /v1/me/factors", { kind: "totp" }],
    ["PUT /v1/me/factors", newFactor],
    ["DELETE /v1/me/factors/factor-of-ada", undefined],
    ["POST /v1/me/recovery-codes", undefined],
    ["POST /v1/admin/accounts", { email: "b@example.com", display_name: "b" }],
    [`PATCH /v1/admin/accounts/${ada.account}`, { is_admin: true }],
    ["POST /v1/admin/nodes/tokens", {}],
    ["PUT /v1/admin/sign-in-policy", policy],
    ["POST /v1/me/identities", { provider_id: "provider-1" }],
    ["DELETE /v1/me/identities/identity-1", undefined],
    [
      "POST /v1/admin/identity-providers",
      { name: "Example", issuer: "https://login.example.com", client_id: "stoker" },
    ],
    ["PATCH /v1/admin/identity-providers/provider-1", { is_enforced: true }],
    ["DELETE /v1/admin/identity-providers/provider-1", undefined],
    [
      "POST /v1/workload-identities",
      { name: "ci", issuer: "https://ci.example.com", audience: "stoker", subject: "repo:acme/app" },
    ],
    ["DELETE /v1/workload-identities/workload-1", undefined],
    ["POST /v1/admin/identity-providers/provider-1/scim-token", undefined],
    ["DELETE /v1/admin/identity-providers/provider-1/scim-token", undefined],
    [reset, undefined],
  ] as const)("needs a sign-in of the last 10 minutes for %s", async (call, body) => {
    open({ authTimeMs: Date.now() - recentSignInMs - 1_000 });
    const answer = await ask(call, body);
    expect(answer.statusCode, answer.body).toBe(403);
    expect(answer.json().code).toBe("reauthentication_required");
    open({});
    expect((await ask(call, body)).statusCode).toBe(200);
  });

  it("needs no recent sign-in to read, or to change what is no credential", async () => {
    open({ authTimeMs: 0 });
    expect((await app.inject({ url: "/v1/api-tokens", headers: { cookie } })).statusCode).toBe(200);
    expect((await ask("PATCH /v1/me", { company: "Analytical Engines" })).statusCode).toBe(200);
  });

  it("of an account that must set up a second factor does that and nothing else", async () => {
    open({ mustEnrol: true });
    const refused = [];
    for (const url of ["/v1/api-tokens", "/v1/models", "/payment/checklist", "/v1/admin/accounts"]) {
      const answer = await app.inject({ url, headers: { cookie } });
      expect(answer.statusCode, url).toBe(403);
      refused.push(answer.body.includes("second_factor_required"));
    }
    expect(refused).toEqual([true, true, true, true]);
    for (const url of ["/v1/me", "/v1/auth/session", "/v1/me/factors"])
      expect((await app.inject({ url, headers: { cookie } })).statusCode, url).toBe(200);
    expect((await ask("POST /v1/me/factors", { kind: "totp" })).statusCode).toBe(200);
    expect((await ask("PUT /v1/me/factors", newFactor)).statusCode).toBe(200);
    expect((await ask("DELETE /v1/me/factors/factor-of-ada")).statusCode).toBe(403);
  });
});
