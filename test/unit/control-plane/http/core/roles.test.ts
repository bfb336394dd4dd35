// Which roles each route of the published API accepts.
import { readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type KeyRole, keyRoles } from "../../../../../control-plane/accounts/key-rules.ts";
import { type MemberRole, memberRoles } from "../../../../../control-plane/accounts/member-role.ts";
import { permissions, type Right } from "../../../../../control-plane/accounts/permissions.ts";
import { createHttp } from "../../../../../control-plane/http/core/create-http.ts";
import type { AccountId } from "../../../../../proto/ids.ts";
import { fakeMembers, memberCaller, organization } from "../../../../fakes/member-ports.ts";
import {
  ada,
  adasSession,
  type FakeAuthenticator,
  type FakeSessions,
  fakePorts,
  operator,
} from "../../../../fakes/ports.ts";

interface Operation {
  readonly tags: readonly string[];
  readonly security: readonly object[];
  readonly "x-right"?: Right;
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
  "GET /v1/permissions": keyRoles,
  "GET /v1/invitations": ["admin"],
  "POST /v1/invitations/preview": ["read", "admin"],
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

/** Routes of the rights that concern money, keys, members and sign-in, by hand: a route must not lose its right unnoticed. */
const routesOf: Readonly<Partial<Record<Right, readonly string[]>>> = {
  readMoney: [
    "GET /payment/checklist",
    "GET /payment/config",
    "GET /payment/funds",
    "GET /payment/invoices",
    "GET /payment/invoices/{invoice_id}",
    "GET /payment/key-limits",
    "GET /payment/limit-alerts",
    "GET /payment/program/application",
    "GET /v1/invoice-exports/{month}",
  ],
  changeMoney: [
    "GET /payment/billing-portal",
    "PATCH /v1/projects/{project_id}",
    "POST /payment/config",
    "POST /payment/funds",
    "POST /payment/key-limits",
    "POST /payment/program/application",
    "POST /payment/topup",
  ],
  manageKeys: [
    "DELETE /v1/projects/{project_id}",
    "DELETE /v1/workload-identities/{id}",
    "GET /v1/webhooks/secret",
    "POST /v1/projects",
    "POST /v1/webhooks/secret/rotate",
    "POST /v1/workload-identities",
  ],
  manageMembers: [
    "DELETE /v1/invitations/{id}",
    "GET /v1/invitations",
    "PATCH /v1/members/{id}",
    "POST /v1/invitations",
    "POST /v1/service-accounts",
  ],
  manageAccount: ["PATCH /v1/me", "POST /v1/me/team_display_name"],
  closeAccount: ["DELETE /v1/me"],
  readSignIn: [
    "GET /v1/auth/session",
    "GET /v1/me/factors",
    "GET /v1/me/identities",
    "GET /v1/me/sessions",
    "GET /v1/organizations",
    "POST /v1/invitations/preview",
  ],
  changeSignIn: [
    "DELETE /v1/me/factors/{id}",
    "DELETE /v1/me/identities/{id}",
    "DELETE /v1/me/sessions/{id}",
    "PATCH /v1/me/factors/{id}",
    "POST /v1/auth/sign-in-link",
    "POST /v1/auth/sign-out",
    "POST /v1/invitations/accept",
    "POST /v1/me/factors",
    "POST /v1/me/identities",
    "POST /v1/me/password",
    "POST /v1/me/recovery-codes",
    "POST /v1/me/verify-email",
    "POST /v1/organizations",
    "PUT /v1/me/factors",
  ],
};

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

describe("roles of members", () => {
  let app: FastifyInstance;
  beforeAll(async () => {
    const { deps } = fakePorts();
    const { callers } = deps.authenticator as FakeAuthenticator;
    const sessions = deps.sessions as FakeSessions;
    const roles = new Map<AccountId, MemberRole>();
    for (const role of memberRoles) {
      const caller = memberCaller(role);
      callers.set(`key-${role}`, caller);
      const person = caller.member?.person as AccountId;
      roles.set(person, role);
      const session = { ...adasSession, cookie: `cookie-${role}`, caller: { ...adasSession.caller, account: person } };
      sessions.open.set(session.cookie, session);
    }
    const members = fakeMembers((person) => roles.get(person));
    app = await createHttp({ ...deps, members });
  });
  afterAll(() => app.close());

  const closed = all.filter(({ security }) => security.length > 0);
  const isAllowed = (role: MemberRole, { "x-right": right }: (typeof all)[number]) =>
    (permissions[right as Right].members as readonly MemberRole[]).includes(role);

  /** True if the caller's role is the reason of a refusal, whatever the dialect. */
  const byRole = /Your role in this organization|concerns a person's own account|requires an operator's account/;
  const isRefused = async (headers: Record<string, string>, { method, path }: (typeof all)[number]) => {
    const url = path.replaceAll(/\{\w+\}/g, "x");
    const { statusCode, body } = await app.inject({ method: method as "GET", url, headers });
    return statusCode === 403 && byRole.test(body);
  };

  it("have a right at every route that needs a credential", () => {
    expect(closed.length).toBeGreaterThan(150);
    expect(closed.filter(({ "x-right": right }) => right === undefined || !(right in permissions))).toEqual([]);
    expect(all.filter(({ security, "x-right": right }) => security.length === 0 && right !== undefined)).toMatchObject([
      { path: "/v1/metrics/live" },
    ]);
  });

  it.each(Object.entries(routesOf))("need the right %s for exactly these routes", (right, routes) => {
    const found = closed.filter((route) => route["x-right"] === right).map(({ method, path }) => `${method} ${path}`);
    expect(found.toSorted()).toEqual(routes);
  });

  it.each(memberRoles)("accepts a key of the member role %s exactly where the table allows it", async (role) => {
    for (const route of closed) {
      const refused = await isRefused({ authorization: `Bearer key-${role}` }, route);
      expect([route.method, route.path, refused]).toEqual([route.method, route.path, !isAllowed(role, route)]);
    }
  });

  it.each(memberRoles)("accepts a session of the member role %s that acts there alike", async (role) => {
    const headers = {
      cookie: `session=cookie-${role}`,
      "x-csrf-token": adasSession.csrfToken,
      "x-stoker-act-as": organization,
    };
    // Inference takes no sessions.
    for (const route of closed.filter(({ "x-right": right }) => right !== "infer")) {
      const refused = await isRefused(headers, route);
      expect([route.method, route.path, refused]).toEqual([route.method, route.path, !isAllowed(role, route)]);
    }
  });

  it("are of no use in an organization that the person is not in", async () => {
    const headers = { cookie: "session=cookie-owner", "x-stoker-act-as": "u:1234567890123" };
    const answer = await app.inject({ url: "/v1/members", headers });
    expect(answer.json()).toMatchObject({ code: "not_a_member" });
  });
});
