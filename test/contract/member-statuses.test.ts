// Organisations over HTTP: statuses of their routes, and what a person does in one by X-Stoker-Act-As.
import { describe, expect, it } from "vitest";
import { browser, checkStatuses, createCustomer, operate, send, signIn, succeed, type Values } from "./status-table.ts";

/** A signed-in person, with the organisation that they created. */
async function founder(): Promise<Values> {
  const customer = await createCustomer();
  const session = await signIn(customer);
  const { uid, member_id } = await succeed({
    call: "POST /v1/organizations",
    key: customer.key,
    body: { display_name: `acme-${customer.name.slice(4)}` },
  });
  return { ...customer, ...session, organization: uid, member: member_id };
}

const inside = { ...browser, "x-stoker-act-as": "{organization}" };
const acting = { key: null, send: inside } as const;

describe("organizations", () => {
  checkStatuses(founder, [
    { call: "GET /v1/permissions", status: 200, holds: { member_role: null, key_role: "admin" } },
    {
      ...acting,
      call: "GET /v1/permissions",
      status: 200,
      holds: { uid: "{organization}", member_role: "owner", member_id: "{member}" },
    },
    {
      call: "GET /v1/organizations",
      status: 200,
      holds: { organizations: [{ uid: "{organization}", role: "owner" }] },
    },
    { ...acting, call: "GET /v1/organizations", status: 403, holds: { code: "personal_account_only" } },
    { call: "POST /v1/organizations", status: 409, body: { display_name: "admin" }, holds: { code: "name_taken" } },
    { call: "POST /v1/organizations", status: 422, body: { display_name: "two words" } },
    {
      ...acting,
      call: "GET /v1/me",
      status: 200,
      holds: {
        uid: "{organization}",
        email: null,
        is_team_account: true,
        is_team_owner: true,
        team_role: "owner",
        root_uid: "{uid}",
      },
    },
    { ...acting, call: "PATCH /v1/me", status: 403, body: { email: "mine@example.com" } },
    { ...acting, call: "PATCH /v1/me", status: 200, body: { company: "Acme" }, holds: { company: "Acme" } },
    {
      ...acting,
      call: "POST /v1/me/team_display_name",
      status: 200,
      body: { display_name: "renamed-{organization}".replace("{organization}", String(Date.now())) },
    },
    { ...acting, call: "POST /v1/me/password", status: 403, body: { password: "a fine long passphrase 8" } },
    { ...acting, call: "GET /v1/me/sessions", status: 403, holds: { code: "personal_account_only" } },
    { ...acting, call: "GET /v1/admin/accounts", status: 403, holds: { code: "admin_only" } },
  ]);

  it("are open to members only, who do not learn of others", async () => {
    const [one, two] = [await founder(), await founder()];
    for (const organization of [two["organization"] as string, "u:1000000000009", "x"]) {
      const reply = await send(
        { call: "GET /v1/members", key: null, send: { ...browser, "x-stoker-act-as": organization } },
        one,
      );
      expect(reply.status).toBe(403);
      expect(reply.json).toMatchObject({ code: "not_a_member" });
    }
  });
});

describe("members", () => {
  const none = "GET /v1/members/unknown";
  checkStatuses(founder, [
    { ...acting, call: "GET /v1/members", status: 200, holds: { members: [{ id: "{member}", role: "owner" }] } },
    { ...acting, call: "GET /v1/members?role=viewer", status: 200, holds: { members: [] } },
    { ...acting, call: "GET /v1/members/{member}", status: 200, holds: { type: "person", uid: "{uid}" } },
    { ...acting, call: none, status: 404, holds: { code: "member_not_found" } },
    {
      ...acting,
      call: "PATCH /v1/members/{member}",
      status: 409,
      body: { role: "viewer" },
      holds: { code: "last_owner" },
    },
    { ...acting, call: "PATCH /v1/members/unknown", status: 404, body: { role: "viewer" } },
    { ...acting, call: "PATCH /v1/members/{member}", status: 422, body: { role: "king" } },
    { ...acting, call: "PATCH /v1/members/{member}", status: 422, body: {}, holds: { code: "empty_change" } },
    {
      ...acting,
      call: "PATCH /v1/members/{member}",
      status: 404,
      body: { project_ids: ["unknown"] },
      holds: { code: "project_not_found" },
    },
    {
      ...acting,
      call: "PATCH /v1/members/{member}",
      status: 200,
      body: { project_ids: [] },
      holds: { role: "owner", project_ids: [] },
    },
    { ...acting, call: "DELETE /v1/members/{member}", status: 409, holds: { code: "last_owner" } },
    { ...acting, call: "DELETE /v1/members/unknown", status: 404 },
    {
      ...acting,
      call: "POST /v1/service-accounts",
      status: 200,
      body: { name: "nightly", role: "developer" },
      holds: { type: "service_account", uid: null, email: null },
    },
    { ...acting, call: "POST /v1/service-accounts", status: 409, body: { name: "nightly", role: "viewer" } },
    { ...acting, call: "POST /v1/service-accounts", status: 422, body: { name: "root", role: "owner" } },
    { call: "POST /v1/service-accounts", status: 409, body: { name: "mine", role: "viewer" } },
    { ...acting, call: "POST /v1/api-tokens", status: 404, body: { name: "x", member_id: "unknown" } },
    { ...acting, call: "POST /v1/api-tokens", status: 200, body: { name: "own" }, holds: { member_id: "{member}" } },
  ]);
});

describe("invitations", () => {
  const accept = "POST /v1/invitations/accept";
  const invited = async (values: Values): Promise<Values> => {
    const { id, token } = await succeed(
      { ...acting, call: "POST /v1/invitations", body: { role: "developer" } },
      values,
    );
    return { invitation: id, token };
  };
  checkStatuses(founder, [
    { ...acting, call: "GET /v1/invitations", status: 200, holds: { invitations: [] } },
    {
      ...acting,
      call: "POST /v1/invitations",
      status: 200,
      body: { role: "viewer", email: "eve@example.com" },
      holds: { email: "eve@example.com", mailed: false },
      headers: { "cache-control": "no-store" },
    },
    { ...acting, call: "POST /v1/invitations", status: 409, body: { role: "viewer", email: "{email}" } },
    { ...acting, call: "POST /v1/invitations", status: 422, body: { role: "viewer", email: "nobody" } },
    { call: "POST /v1/invitations", status: 409, body: { role: "viewer" }, holds: { code: "not_an_organization" } },
    { ...acting, call: "DELETE /v1/invitations/{invitation}", status: 200, given: invited },
    { ...acting, call: "DELETE /v1/invitations/unknown", status: 404 },
    {
      call: "POST /v1/invitations/preview",
      status: 200,
      given: invited,
      body: { token: "{token}" },
      holds: { organization: { uid: "{organization}" }, role: "developer" },
    },
    { call: "POST /v1/invitations/preview", status: 401, body: { token: "unknown" } },
    { call: accept, status: 409, given: invited, body: { token: "{token}" }, holds: { code: "already_member" } },
    { call: accept, status: 401, body: { token: "unknown" }, holds: { code: "invitation_expired" } },
    {
      call: accept,
      status: 403,
      given: async (values) => ({
        token: (
          await succeed(
            { ...acting, call: "POST /v1/invitations", body: { role: "viewer", email: "dan@example.com" } },
            values,
          )
        ).token,
      }),
      body: { token: "{token}" },
      holds: { code: "invitation_for_other" },
    },
  ]);

  it("lead a person into the organization, with a key that is theirs and ends when they leave", async () => {
    const owner = await founder();
    const { token } = await invited(owner);
    const bob = await createCustomer();
    const session = { ...(await signIn(bob)), organization: owner["organization"] as string };
    const joined = await succeed({ call: accept, key: bob.key, body: { token } });
    expect(joined).toMatchObject({ uid: owner["organization"], role: "developer" });
    const key = await succeed({ ...acting, call: "POST /v1/api-tokens", body: { name: "bobs" } }, session);
    expect(await succeed({ call: "GET /v1/permissions", key: key.token })).toMatchObject({ member_role: "developer" });
    const money = await send({ call: "GET /payment/funds", key: key.token });
    expect(money.json).toMatchObject({ code: "role_not_allowed" });
    // Idempotency keys of members are apart: the answer holds a secret.
    const keyed = { ...inside, "idempotency-key": "the same" };
    const body = { name: "shared name" };
    await succeed({ call: "POST /v1/api-tokens", key: null, send: keyed, body }, session);
    const other = await send({ call: "POST /v1/api-tokens", key: null, send: keyed, body }, owner);
    expect(other.text).not.toContain("stk_");
    const left = await succeed({ ...acting, call: `DELETE /v1/members/${joined.member_id}` }, session);
    expect(left).toMatchObject({ name: bob.name });
    await expect.poll(async () => (await send({ call: "GET /v1/permissions", key: key.token })).status).toBe(401);
    expect((await send({ ...acting, call: "GET /v1/members" }, session)).json).toMatchObject({ code: "not_a_member" });
    const { entries } = await operate(`GET /v1/admin/audit?account=${owner["organization"]}&action=key.create`);
    expect(entries.map(({ actor }: { actor: string }) => actor)).toEqual([bob.uid, bob.uid]);
  });
});
