// The account's own pages: profile, e-mails, team, SSH keys. Every endpoint and its statuses.
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import {
  addApp,
  checkStatuses,
  createCustomer,
  createEndedCustomer,
  operate,
  operatorKey,
  type Reply,
  type StatusRow,
  send,
  signIn,
  succeed,
  type Values,
} from "./status-table.ts";

const team = { display_name: "{teamName}" };
const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada";

const newName = () => `n-${randomBytes(6).toString("hex")}`;

async function newAccount(): Promise<Values> {
  return { ...(await createCustomer()) };
}

async function newTeam(): Promise<Values> {
  const { uid, key } = await createCustomer();
  await operate(`PATCH /v1/admin/accounts/${uid}`, { is_team_account: true });
  return { key, teamName: newName() };
}

async function withSecondFactor(): Promise<Values> {
  const customer = await createCustomer();
  await addApp(await signIn(customer));
  return { key: customer.key };
}

async function arrange(): Promise<Values> {
  const customer = await createCustomer();
  const bob = await createCustomer();
  const made = await succeed({ call: "POST /v1/ssh_keys", body: { name: "desk", key: sshKey } }, { ...customer });
  return { ...customer, bobsName: bob.name, sshKeyId: made.id, teamName: newName() };
}

const newEmail = () => ({ email: `${newName()}@example.com` });
const attempts = { "x-forwarded-for": "203.0.113.77" };

const rows: readonly StatusRow[] = [
  {
    call: "PATCH /v1/me",
    status: 200,
    body: { first_name: "Ada", company: null, is_business_account: true },
    holds: { uid: "{uid}", first_name: "Ada", company: "", is_business_account: true },
  },
  { call: "PATCH /v1/me", status: 200, body: {}, holds: { uid: "{uid}" } },
  { call: "PATCH /v1/me", status: 401, key: null, body: {} },
  { call: "PATCH /v1/me", status: 404, given: createEndedCustomer, body: { first_name: "Ada" } },
  { call: "PATCH /v1/me", status: 409, body: { display_name: "{bobsName}" }, holds: { code: "name_taken" } },
  {
    call: "PATCH /v1/me",
    status: 429,
    // One address changes e-mail addresses at most 30 times in 15 minutes.
    given: async () => {
      const values = await newAccount();
      for (let n = 0; n < 30; n++) await send({ call: "PATCH /v1/me", body: newEmail(), send: attempts }, values);
      return values;
    },
    body: newEmail(),
    send: attempts,
    holds: { code: "too_many_attempts", error: expect.stringMatching(/Try again in \d+ minutes/) },
  },
  { call: "DELETE /v1/me", status: 200, given: newAccount, holds: { uid: "{uid}" } },
  { call: "DELETE /v1/me", status: 403, given: withSecondFactor, holds: { code: "session_required" } },
  { call: "PATCH /v1/me", status: 200, given: newAccount, body: newEmail() },
  {
    call: "PATCH /v1/me",
    status: 403,
    given: withSecondFactor,
    body: newEmail(),
    holds: { code: "session_required" },
  },
  { call: "DELETE /v1/me", status: 401, key: null },
  { call: "DELETE /v1/me", status: 404, given: createEndedCustomer },
  { call: "DELETE /v1/me", status: 409, key: operatorKey, holds: { code: "last_admin" } },
  { call: "GET /v1/me/emails", status: 200, holds: { emails: ["{email}"] } },
  { call: "GET /v1/me/emails", status: 401, key: null },
  { call: "GET /v1/me/emails", status: 404, given: createEndedCustomer },
  { call: "GET /v1/me", status: 404, given: createEndedCustomer },
  {
    call: "POST /v1/me/team_display_name",
    status: 200,
    given: newTeam,
    body: team,
    holds: { team_display_name: "{teamName}" },
  },
  { call: "POST /v1/me/team_display_name", status: 401, key: null, body: team },
  { call: "POST /v1/me/team_display_name", status: 404, body: team, holds: { code: "not_in_team" } },
  {
    call: "POST /v1/me/team_display_name",
    status: 409,
    given: async () => {
      const taken = await newTeam();
      await succeed({ call: "POST /v1/me/team_display_name", body: team }, taken);
      return { ...taken, key: (await newTeam())["key"] };
    },
    body: team,
    holds: { code: "name_taken" },
  },
  { call: "POST /v1/me/team_display_name", status: 422, body: { display_name: "a--b" } },

  { call: "GET /v1/ssh_keys", status: 200, holds: [{ id: "{sshKeyId}", name: "desk" }] },
  { call: "GET /v1/ssh_keys", status: 401, key: null },
  { call: "POST /v1/ssh_keys", status: 200, body: { name: "laptop", key: sshKey }, holds: { name: "laptop" } },
  { call: "POST /v1/ssh_keys", status: 401, key: null, body: { name: "laptop", key: sshKey } },
  {
    call: "POST /v1/ssh_keys",
    status: 409,
    body: { name: "desk", key: sshKey },
    holds: { code: "name_taken" },
    headers: { "x-should-retry": "false" },
  },
  { call: "POST /v1/ssh_keys", status: 422, body: { key: sshKey, name: "" } },
  { call: "POST /v1/ssh_keys", status: 422, body: { key: sshKey, name: "n".repeat(65) } },
  { call: "POST /v1/ssh_keys", status: 422, body: { name: "long", key: "k".repeat(32_001) } },
  {
    call: "POST /v1/ssh_keys",
    status: 422,
    body: { name: "cut", key: sshKey.slice(0, 30) },
    holds: { detail: [{ loc: ["body", "key"] }], code: "bad_ssh_key" },
  },
  { call: "DELETE /v1/ssh_keys/{sshKeyId}", status: 401, key: null },
  { call: "DELETE /v1/ssh_keys/{sshKeyId}", status: 200, holds: {} },
  { call: "DELETE /v1/ssh_keys/unknown", status: 404, holds: { code: "ssh_key_not_found" } },
];

describe("the account's own pages", () => {
  checkStatuses(arrange, rows);
});

describe("the profile", () => {
  let values: Values;
  beforeAll(async () => {
    values = await newAccount();
  });
  const patch = (body: object): Promise<Reply> => send({ call: "PATCH /v1/me", body }, values);
  const longest = {
    name: 256,
    first_name: 128,
    last_name: 128,
    country: 128,
    company: 128,
    title: 128,
    website: 128,
    use_case: 512,
    attribution: 512,
    display_name: 39,
  };
  it.each(Object.entries(longest))("accepts %s of %i characters and refuses one more", async (field, max) => {
    expect((await patch({ [field]: "x".repeat(max) })).status).toBe(200);
    const refused = await patch({ [field]: "x".repeat(max + 1) });
    expect([refused.status, refused.json.detail[0].loc]).toEqual([422, ["body", field]]);
  });

  it.each(Object.keys(longest).filter((field) => field !== "website"))("refuses an empty %s", async (field) => {
    expect((await patch({ [field]: "" })).status).toBe(422);
  });

  it("removes the website by an empty one, and changes nothing by null", async () => {
    expect((await patch({ website: "" })).json).toMatchObject({ website: "" });
    const before = (await patch({})).json;
    const nothing = Object.fromEntries(Object.keys(longest).map((field) => [field, null]));
    expect((await patch(nothing)).json).toEqual(before);
  });

  it.each(["a_b", "-a", "a-", "a--b", "ä", "a b"])("refuses the display name %s", async (name) => {
    expect((await patch({ display_name: name })).status).toBe(422);
  });

  it.each(["ada", "a@b@c", "@", " a@b.c", "a\u0000@b.c", ""])("refuses the e-mail address %j", async (email) => {
    expect((await patch({ email })).status).toBe(422);
  });

  it("names the field that is out of bounds in words", async () => {
    expect((await patch({ name: 7 })).json.error).toMatch(/name/);
  });
});
