// Which roles each route of the published API accepts.
import { readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type KeyRole, keyRoles } from "../../../../../control-plane/accounts/key-rules.ts";
import { createHttp } from "../../../../../control-plane/http/core/create-http.ts";
import { ada, type FakeAuthenticator, fakePorts, operator } from "../../../../fakes/ports.ts";

interface Operation {
  readonly tags: readonly string[];
  readonly security: readonly object[];
}
const { paths } = JSON.parse(readFileSync(new URL("../../../../../docs/openapi.json", import.meta.url), "utf8")) as {
  paths: Record<string, Record<string, Operation>>;
};

const all = Object.entries(paths).flatMap(([path, operations]) =>
  Object.entries(operations).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...operation })),
);

/** Reads that reveal a secret or change something at the payment provider, and writes that change nothing. */
const exceptions: Readonly<Record<string, readonly KeyRole[]>> = {
  "GET /v1/webhooks/secret": ["admin"],
  "GET /payment/billing-portal": ["admin"],
  "POST /v1/request-costs": ["read", "admin"],
  "POST /deploy/llm/placement": ["read", "admin"],
  "POST /deploy/hf/placement": ["read", "admin"],
  "POST /mcp": ["read", "admin"],
};
const modelLists = /^\/(v1\/models|models)\b/;
const notInference = /^\/v1\/(webhooks|responses)\//;

function expected({ method, path, tags, security }: (typeof all)[number]): readonly KeyRole[] {
  const exception = exceptions[`${method} ${path}`];
  if (exception) return exception;
  if (security.length === 0) return keyRoles;
  if (path.startsWith("/v1/admin/")) return ["admin"];
  if (tags.includes("inference") && !notInference.test(path)) return ["inference", "admin"];
  if (method === "GET" && modelLists.test(path)) return keyRoles;
  return method === "GET" ? ["read", "admin"] : ["admin"];
}

describe("roles of API keys", () => {
  let app: FastifyInstance;
  beforeAll(async () => {
    const { deps } = fakePorts();
    const { callers } = deps.authenticator as FakeAuthenticator;
    for (const role of keyRoles) {
      callers.set(`key-${role}`, { ...operator, role, isAdmin: role === "admin" });
      callers.set(`jwt-${role}`, { ...ada, role, via: "jwt" });
    }
    app = await createHttp(deps);
  });
  afterAll(() => app.close());

  /** Some dialects have the message only. */
  const byRole = /role_not_allowed|has the role/;
  const refusalOf = async (secret: string, { method, path }: (typeof all)[number]) => {
    const url = path.replaceAll(/\{\w+\}/g, "x");
    const response = await app.inject({ method: method as "GET", url, headers: { authorization: `Bearer ${secret}` } });
    if (response.statusCode !== 403) return "none";
    return byRole.test(response.body) ? "role" : "other";
  };

  it("covers the published API", () => expect(all.length).toBeGreaterThan(150));

  it.each(keyRoles)("accepts a key of the role %s exactly where its role allows it", async (role) => {
    for (const route of all) {
      const refusal = (await refusalOf(`key-${role}`, route)) === "role";
      expect([route.method, route.path, refusal]).toEqual([route.method, route.path, !expected(route).includes(role)]);
    }
  });

  it("accepts a token signed by a read key only for lists of models", async () => {
    for (const route of all.filter(({ security }) => security.length > 0)) {
      const isOpen = (await refusalOf("jwt-read", route)) === "none";
      const isList = route.method === "GET" && modelLists.test(route.path) && expected(route).includes("inference");
      expect([route.method, route.path, isOpen]).toEqual([route.method, route.path, isList]);
    }
  });
});
