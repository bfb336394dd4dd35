// The cookie of a signed-in browser: how it is set, where it counts, and what a write with it must prove.
import type { FastifyInstance, InjectOptions } from "fastify";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { ada, adasPassword, adasSession, apiKey, type FakePorts, fakePorts } from "../fakes/ports.ts";

const credentials = { email: ada.email, password: adasPassword };
const customer = { ...credentials, display_name: "ada" };
const proxy = "10.1.2.3";
const cookie = `session=${adasSession.cookie}`;
const csrf = { "x-csrf-token": adasSession.csrfToken };
const here = { origin: "http://stoker.example", host: "stoker.example" };

let ports: FakePorts;
let app: FastifyInstance;
beforeAll(async () => {
  ports = fakePorts();
  Object.assign(ports.deps, { trustedProxies: ["10.0.0.0/8", "2001:db8::/32"] });
  app = await createHttp(ports.deps);
});
beforeEach(() => {
  const fresh = fakePorts().deps;
  for (const part of ["profiles", "signIn", "sessions"] as const) Object.assign(ports.deps[part], fresh[part]);
});
afterAll(() => app.close());

const ask = (method: "GET" | "POST" | "PATCH" | "DELETE", url: string, headers: object, more: InjectOptions = {}) =>
  app.inject({ method, url, headers: { ...headers }, ...more });
const signInFrom = (remoteAddress: string, headers: object) =>
  ask(
    "POST",
    "/v1/auth/sign-in",
    { "content-type": "application/json", ...headers },
    {
      body: JSON.stringify(credentials),
      remoteAddress,
    },
  );

describe("the session cookie", () => {
  it("is closed to scripts and to other sites' requests, and never stored by a cache", async () => {
    const answer = await signInFrom("192.0.2.1", {});
    const [set, device] = [answer.headers["set-cookie"]].flat();
    expect(device).toMatch(/^device=device-of-ada; Max-Age=31536000; Path=\/; HttpOnly; SameSite=Lax$/);
    expect(set).toMatch(new RegExp(`^session=${adasSession.cookie}; Max-Age=7776000; Path=/; HttpOnly; SameSite=Lax$`));
    expect(answer.headers["cache-control"]).toBe("no-store");
  });

  it.each([
    ["a trusted proxy that was reached by TLS", proxy, { "x-forwarded-proto": "https" }, true],
    ["a trusted IPv6 proxy that was reached by TLS", "2001:db8::9", { "x-forwarded-proto": "https" }, true],
    ["a trusted proxy that was reached without TLS", proxy, { "x-forwarded-proto": "http" }, false],
    ["a trusted proxy that says nothing", proxy, {}, false],
    ["anybody else who claims TLS", "192.0.2.1", { "x-forwarded-proto": "https" }, false],
  ])("from %s (%s) is Secure or not as the client came", async (_who, address, headers, isSecure) => {
    const answer = await signInFrom(address, headers);
    expect(answer.statusCode).toBe(200);
    expect(/; Secure/.test(String(answer.headers["set-cookie"]))).toBe(isSecure);
  });

  it("opens management routes, the checklist among them, and the operator's only to an operator", async () => {
    expect((await ask("GET", "/v1/me", { cookie })).json()).toMatchObject({ uid: ada.account });
    expect((await ask("GET", "/payment/checklist", { cookie })).statusCode).toBe(200);
    const { auth_time, ...session } = (await ask("GET", "/v1/auth/session", { cookie })).json();
    expect(auth_time).toBeGreaterThan(adasSession.authTimeMs / 1000 - 60);
    expect(auth_time).toBeLessThanOrEqual(adasSession.authTimeMs / 1000);
    expect(session).toEqual({
      factors: ["password"],
      must_enrol: false,
      uid: ada.account,
      csrf_token: adasSession.csrfToken,
      expires_at: 1_786_000_000,
    });
    expect((await ask("GET", "/v1/admin/nodes", { cookie })).statusCode).toBe(403);
  });

  it("shows the models, which scoped tokens see too", async () => {
    expect((await ask("GET", "/v1/models", { cookie })).statusCode).toBe(200);
    expect((await ask("GET", "/models/deployment/list", { cookie })).statusCode).toBe(200);
  });

  it("never opens inference", async () => {
    const body = JSON.stringify({ model: "org/model", messages: [{ role: "user", content: "hi" }] });
    const headers = { cookie, ...csrf, ...here, "content-type": "application/json" };
    const answer = await ask("POST", "/v1/compat/chat/completions", headers, { body });
    expect(answer.statusCode).toBe(401);
    expect(ports.budgets.holds).toHaveLength(0);
  });

  it("is not looked at where a key is given, in whichever carrier", async () => {
    for (const name of ["authorization", "xi-api-key", "x-api-key"]) {
      const wrong = name === "authorization" ? "Bearer stk_wrong" : "stk_wrong";
      expect((await ask("GET", "/v1/me", { cookie, [name]: wrong })).statusCode, name).toBe(401);
    }
    expect((await ask("GET", "/v1/auth/session", { cookie, "x-api-key": apiKey })).statusCode).toBe(404);
  });

  it("that is unknown is refused like an unknown key", async () => {
    const unknown = await ask("GET", "/v1/me", { cookie: "session=other" });
    const key = await ask("GET", "/v1/me", { authorization: "Bearer stk_wrong" });
    expect(unknown.statusCode).toBe(401);
    expect({ ...unknown.json(), request_id: "" }).toEqual({ ...key.json(), request_id: "" });
  });

  it("ends at sign-out", async () => {
    const answer = await ask("POST", "/v1/auth/sign-out", { cookie, ...csrf, ...here });
    expect(answer.statusCode).toBe(200);
    expect(String(answer.headers["set-cookie"])).toMatch(/^session=; Max-Age=0; /);
    expect((await ask("GET", "/v1/me", { cookie })).statusCode).toBe(401);
  });
});

describe("the client's address", () => {
  const seen = async (remoteAddress: string, headers: object) => {
    let ip = "";
    ports.deps.signIn.signIn = (_request, visitor) => {
      ip = visitor.ip;
      return Promise.resolve({ is: "signed_in", session: adasSession, device: "device-of-ada" });
    };
    expect((await signInFrom(remoteAddress, headers)).statusCode).toBe(200);
    return ip;
  };
  it("is the one a trusted proxy forwards, and nobody else's claim", async () => {
    expect(await seen(proxy, { "x-forwarded-for": "198.51.100.7" })).toBe("198.51.100.7");
    // What the client itself wrote stands before the address that the proxy added.
    expect(await seen(proxy, { "x-forwarded-for": "127.0.0.1, 198.51.100.7" })).toBe("198.51.100.7");
    expect(await seen("192.0.2.1", { "x-forwarded-for": "127.0.0.1" })).toBe("192.0.2.1");
    expect(await seen("::ffff:10.1.2.3", { "x-forwarded-for": "198.51.100.7" })).toBe("198.51.100.7");
  });
});

describe("a write with the cookie", () => {
  const write = (headers: object, more: InjectOptions = {}) =>
    ask(
      "PATCH",
      "/v1/me",
      { cookie, "content-type": "application/json", host: here.host, ...headers },
      {
        body: JSON.stringify({ company: "x" }),
        ...more,
      },
    );

  it.each([
    ["the session's token and an Origin of this server", { ...csrf, ...here }],
    ["the session's token and a browser's word that the page is ours", { ...csrf, "sec-fetch-site": "same-origin" }],
    ["the session's token and no browser", csrf],
    ["an Origin in another scheme, behind a proxy that is not told of", { ...csrf, origin: "https://stoker.example" }],
  ])("is accepted with %s", async (_what, headers) => {
    expect((await write(headers)).statusCode).toBe(200);
  });

  it("is accepted with the Origin that a trusted proxy's forwarded host names", async () => {
    const headers = { ...csrf, origin: "https://public.example", "x-forwarded-host": "public.example" };
    expect((await write(headers, { remoteAddress: proxy })).statusCode).toBe(200);
    expect((await write(headers, { remoteAddress: "192.0.2.1" })).statusCode).toBe(403);
  });

  it.each([
    ["no token", here],
    ["an empty token", { ...here, "x-csrf-token": "" }],
    ["another session's token", { ...here, "x-csrf-token": "csrf-of-bob" }],
    ["an Origin of another site", { ...csrf, origin: "http://evil.example" }],
    ["an Origin of another port", { ...csrf, origin: "http://stoker.example:81" }],
    ["an opaque Origin", { ...csrf, origin: "null" }],
    ["a browser's word that the page is another site's", { ...csrf, ...here, "sec-fetch-site": "cross-site" }],
    ["a browser's word that the page is a neighbour's", { ...csrf, ...here, "sec-fetch-site": "same-site" }],
  ])("is refused with %s, and changes nothing", async (_what, headers) => {
    ports.deps.profiles.change = () => Promise.reject(new Error("it was called"));
    const answer = await write(headers);
    expect(answer.statusCode).toBe(403);
    expect(answer.json().code).toBe("csrf_refused");
  });

  it.each(["POST", "PATCH", "DELETE"] as const)("needs the token by %s", async (method) => {
    const url = { POST: "/v1/ssh_keys", PATCH: "/v1/me", DELETE: "/v1/ssh_keys/x" }[method];
    expect((await ask(method, url, { cookie })).json().code).toBe("csrf_refused");
  });

  it("needs no token with an API key beside it", async () => {
    expect((await write({ authorization: `Bearer ${apiKey}` })).statusCode).toBe(200);
  });
});

describe("signing in and up", () => {
  it.each([
    ["/v1/auth/sign-in", customer],
    ["/v1/auth/sign-up", customer],
    ["/v1/auth/reset-password", { email: customer.email }],
    ["/v1/auth/new-password", { ticket: "x", password: customer.password }],
    ["/v1/auth/verify-email", { ticket: "x" }],
  ])("by %s from another site's page is refused", async (url, body) => {
    const headers = { "content-type": "application/json", host: here.host, origin: "http://evil.example" };
    const answer = await ask("POST", url, headers, { body: JSON.stringify(body) });
    expect(answer.json().code).toBe("csrf_refused");
    expect(answer.headers["set-cookie"]).toBeUndefined();
  });
});
