import { describe, expect, it } from "vitest";
import { createTenantDigest, saltedBody, tenantHeaders } from "../../../../agent/ingress/tenant.ts";

const salted = (text: string, path = "/v1/chat/completions", change = {}) =>
  saltedBody({ cacheIsolation: "body", ...change }, path, "digest", Buffer.from(text)).toString();

describe("the digest of an account", () => {
  it("is the same for the same account, and reveals nothing without the agent's key", () => {
    const digest = createTenantDigest();
    expect(digest("u:a")).toBe(digest("u:a"));
    expect(digest("u:a")).not.toBe(digest("u:b"));
    expect(digest("u:a")).toMatch(/^[\w-]{43}$/);
    expect(createTenantDigest()("u:a")).not.toBe(digest("u:a"));
  });

  it("is sent to our engines in a header, with one scope if the cache is shared, and to no foreign server", () => {
    expect(tenantHeaders({}, "digest")).toEqual(["x-stoker-tenant", "digest"]);
    expect(tenantHeaders({ sharesPrefixCache: true }, "digest")).toEqual([
      ...["x-stoker-tenant", "digest"],
      ...["x-stoker-cache-scope", "shared"],
    ]);
    expect(tenantHeaders({ cacheIsolation: "none" }, "digest")).toEqual([]);
  });
});

describe("the salt in a body", () => {
  it.each([
    ['{"model":"m"}', '{"model":"m","cache_salt":"digest"}'],
    ['{"model":"m"} \r\n\t', '{"model":"m","cache_salt":"digest"}'],
    ["{ }", '{ "cache_salt":"digest"}'],
  ])("is the last member of %j", (body, sent) => {
    expect(salted(body)).toBe(sent);
  });

  it("replaces a client's value, because JSON parsers keep the last member", () => {
    const body = JSON.parse(salted('{"cache_salt":"mine","model":"m","cache\\u005fsalt":"mine too"}'));
    expect(body).toEqual({ model: "m", cache_salt: "digest" });
  });

  it("is added only to generations, and never if the operator shares the cache or the engine reads our headers", () => {
    const body = '{"model":"m"}';
    expect(salted(body, "/v1/embeddings")).toBe(body);
    expect(salted(body, "/v1/completions", { sharesPrefixCache: true })).toBe(body);
    expect(salted(body, "/v1/completions", { cacheIsolation: "headers" })).toBe(body);
    expect(salted("no object")).toBe("no object");
  });
});
