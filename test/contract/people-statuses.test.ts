// The account's own pages: profile, e-mails, team, SSH keys. Every endpoint and its statuses.
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as accounts from "../../control-plane/accounts/errors.ts";
import { createHttp } from "../../control-plane/http/create-http.ts";
import { DatabaseAway } from "../../control-plane/store/database.ts";
import { ada, apiKey, type FakePorts, fakePorts, sshKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const away = new DatabaseAway("away");
const taken = new accounts.AccountNameTaken("This display name is taken.", { param: "display_name" });
const team = { display_name: "my-team" };
const key = { name: "laptop", key: "ssh-ed25519 AAAA" };

const ended =
  (error: Error) =>
  ({ deps }: FakePorts) =>
    void Object.assign(deps, { deleteAccount: () => Promise.reject(error) });

const rows: readonly Row[] = [
  {
    call: "PATCH /v1/me",
    status: 200,
    body: { first_name: "Ada", company: null, is_business_account: true },
    holds: { uid: ada.account, first_name: "Ada", company: "", is_business_account: true },
  },
  { call: "PATCH /v1/me", status: 200, body: {}, holds: { uid: ada.account } },
  { call: "PATCH /v1/me", status: 401, key: null, body: {} },
  { call: "PATCH /v1/me", status: 404, body: {}, given: refuse("profiles", "change")(new accounts.AccountGone()) },
  { call: "PATCH /v1/me", status: 409, body: { display_name: "b" }, given: refuse("profiles", "change")(taken) },
  { call: "PATCH /v1/me", status: 503, body: {}, given: refuse("profiles", "change")(away) },
  { call: "DELETE /v1/me", status: 200, holds: { uid: ada.account } },
  { call: "DELETE /v1/me", status: 401, key: null },
  { call: "DELETE /v1/me", status: 404, given: ended(new accounts.AccountGone()) },
  { call: "DELETE /v1/me", status: 409, given: ended(new accounts.LastAdmin()), holds: { code: "last_admin" } },
  { call: "DELETE /v1/me", status: 409, given: ended(new accounts.AccountInUse()) },
  { call: "DELETE /v1/me", status: 503, given: ended(away) },
  { call: "GET /v1/me/emails", status: 200, holds: { emails: ["ada@example.com"] } },
  { call: "GET /v1/me/emails", status: 401, key: null },
  { call: "GET /v1/me/emails", status: 404, given: refuse("profiles", "emails")(new accounts.AccountGone()) },
  { call: "GET /v1/me/emails", status: 503, given: refuse("profiles", "emails")(away) },
  { call: "POST /v1/me/team_display_name", status: 200, body: team, holds: { team_display_name: "my-team" } },
  { call: "POST /v1/me/team_display_name", status: 401, key: null, body: team },
  {
    call: "POST /v1/me/team_display_name",
    status: 404,
    body: team,
    given: refuse("profiles", "nameTeam")(new accounts.NotInTeam()),
    holds: { code: "not_in_team" },
  },
  { call: "POST /v1/me/team_display_name", status: 409, body: team, given: refuse("profiles", "nameTeam")(taken) },
  { call: "POST /v1/me/team_display_name", status: 422, body: { display_name: "a--b" } },
  { call: "POST /v1/me/team_display_name", status: 503, body: team, given: refuse("profiles", "nameTeam")(away) },

  { call: "GET /v1/ssh_keys", status: 200, holds: [{ id: sshKey.id, created_at: 1_786_000_000 }] },
  { call: "GET /v1/ssh_keys", status: 401, key: null },
  { call: "GET /v1/ssh_keys", status: 503, given: refuse("sshKeys", "list")(away) },
  { call: "POST /v1/ssh_keys", status: 200, body: key, holds: key },
  { call: "POST /v1/ssh_keys", status: 401, key: null, body: key },
  {
    call: "POST /v1/ssh_keys",
    status: 409,
    body: key,
    given: refuse("sshKeys", "add")(new accounts.SshKeyNameTaken()),
    headers: { "x-should-retry": "false" },
  },
  { call: "POST /v1/ssh_keys", status: 422, body: { ...key, name: "" } },
  { call: "POST /v1/ssh_keys", status: 422, body: { ...key, name: "n".repeat(65) } },
  { call: "POST /v1/ssh_keys", status: 422, body: { ...key, key: "k".repeat(32_001) } },
  {
    call: "POST /v1/ssh_keys",
    status: 422,
    body: key,
    given: refuse("sshKeys", "add")(new accounts.BadSshKey("The key was cut.")),
    holds: { detail: [{ loc: ["body", "key"], msg: "The key was cut." }] },
  },
  { call: "POST /v1/ssh_keys", status: 503, body: key, given: refuse("sshKeys", "add")(away) },
  { call: `DELETE /v1/ssh_keys/${sshKey.id}`, status: 200, holds: {} },
  { call: `DELETE /v1/ssh_keys/${sshKey.id}`, status: 401, key: null },
  { call: "DELETE /v1/ssh_keys/unknown", status: 404, holds: { code: "ssh_key_not_found" } },
  { call: `DELETE /v1/ssh_keys/${sshKey.id}`, status: 503, given: refuse("sshKeys", "remove")(away) },
];

describe("every endpoint of the account's own pages and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});

describe("the bounds of the profile", () => {
  let app: FastifyInstance;
  beforeAll(async () => {
    app = await createHttp(fakePorts().deps);
  });
  afterAll(() => app.close());
  const patch = async (body: object) => {
    const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
    const answer = await app.inject({ method: "PATCH", url: "/v1/me", headers, body: JSON.stringify(body) });
    return { status: answer.statusCode, ...answer.json() };
  };
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
  it.each(Object.entries(longest))("%s takes %i characters and refuses one more", async (field, most) => {
    expect(await patch({ [field]: "x".repeat(most) })).toMatchObject({ status: 200 });
    const refused = { status: 422, detail: [{ loc: ["body", field] }] };
    expect(await patch({ [field]: "x".repeat(most + 1) })).toMatchObject(refused);
  });

  it.each(Object.keys(longest).filter((field) => field !== "website"))("%s may not be empty", async (field) => {
    expect(await patch({ [field]: "" })).toMatchObject({ status: 422 });
  });

  it("an empty website takes it away, null and absence say nothing", async () => {
    expect(await patch({ website: "" })).toMatchObject({ status: 200, website: "" });
    const nothing = Object.fromEntries(Object.keys(longest).map((field) => [field, null]));
    expect(await patch(nothing)).toMatchObject({ status: 200, display_name: ada.displayName });
  });

  it.each(["a_b", "-a", "a-", "a--b", "ä", "a b"])("refuses the display name %s", async (name) => {
    expect(await patch({ display_name: name })).toMatchObject({ status: 422 });
  });

  it.each(["ada", "a@b@c", "@", " a@b.c", "a\u0000@b.c", ""])("refuses the e-mail address %j", async (email) => {
    expect(await patch({ email })).toMatchObject({ status: 422 });
  });

  it("names the field that is out of bounds in words", async () => {
    expect((await patch({ name: 7 })).error).toMatch(/name/);
  });
});
