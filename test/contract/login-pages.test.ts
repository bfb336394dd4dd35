// /login and the wait of a command line, by plain HTTP: what a browser without scripts does.
import type { FastifyInstance } from "fastify";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { cliLoginBusy, cliLoginUsed } from "../../control-plane/accounts/cli-login.ts";
import { accountGone, TooManyAttempts } from "../../control-plane/accounts/errors.ts";
import { sessionRequired, signInExpired } from "../../control-plane/accounts/factor-errors.ts";
import { recentSignInMs } from "../../control-plane/accounts/sessions.ts";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { fakeMembers, organization } from "../fakes/member-ports.ts";
import { ada, adasPassword, adasSession, type FakePorts, fakePorts } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const loginId = "abcd1234ABCD1234abcd1234ABCD1234";
const wait = `GET /github/cli/login?login_id=${loginId}` as const;

const rows: readonly Row[] = [
  { call: "POST /v1/auth/sign-in-link", status: 200, headers: { "cache-control": "no-store" } },
  { call: "POST /v1/auth/sign-in-link", status: 401, key: null },
  { call: "POST /v1/auth/sign-in-link", status: 403, given: refuse("signIn", "createLink")(sessionRequired()) },
  { call: "POST /v1/auth/sign-in-link", status: 404, given: refuse("signIn", "createLink")(accountGone()) },
  { call: wait, status: 200, key: null, holds: { access_token: "stk_made" }, headers: { "cache-control": "no-store" } },
  { call: wait, status: 404, key: null, given: refuse("cliLogins", "wait")(cliLoginUsed()) },
  { call: "GET /github/cli/login", status: 422, key: null, holds: { detail: [{ loc: ["query", "login_id"] }] } },
  { call: `${wait}x`, status: 422, key: null },
  {
    call: wait,
    status: 429,
    key: null,
    given: refuse("cliLogins", "wait")(cliLoginBusy()),
    headers: { "retry-after": "5" },
  },
];

describe("the wait of a command line and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));

  it("does not delay shutdown", async () => {
    const ports = fakePorts();
    let begun = () => {};
    const waits = new Promise<void>((resolve) => (begun = resolve));
    ports.deps.cliLogins.wait = (_id, _ip, signal) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve(undefined));
        begun();
      });
    const app = await createHttp(ports.deps);
    const asked = app.inject({ method: "GET", url: wait.slice(4) });
    await waits;
    await app.close();
    expect((await asked).json()).toMatchObject({ code: "restarting" });
  });
});

let ports: FakePorts;
let app: FastifyInstance;
let approved: string[];
beforeAll(async () => {
  ports = fakePorts();
  app = await createHttp(ports.deps);
});
beforeEach(() => {
  const fresh = fakePorts().deps;
  for (const part of ["signIn", "sessions", "cliLogins"] as const) Object.assign(ports.deps[part], fresh[part]);
  approved = [];
  ports.deps.cliLogins.approve = ({ account }, id) => {
    approved.push(`${account} ${id}`);
    return Promise.resolve();
  };
});
afterAll(() => app.close());

const cookie = `session=${adasSession.cookie}`;
const get = (url: string, headers: object = {}) => app.inject({ method: "GET", url, headers: { ...headers } });
const post = (url: string, form: Record<string, string>, headers: object = {}) =>
  app.inject({
    method: "POST",
    url,
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(form).toString(),
  });
const rightForm = { email: ada.email, password: adasPassword };

describe("a sign-in link", () => {
  const ticket = "ticket-of-ada";

  it("opens a page with a button, which any prefetch may load", async () => {
    const used: string[] = [];
    ports.deps.signIn.useLink = (given) => {
      used.push(given);
      return Promise.reject(signInExpired());
    };
    const answer = await get(`/login/link?ticket=${ticket}`);
    expect([answer.statusCode, answer.headers["set-cookie"], answer.headers["cache-control"]]).toEqual([
      200,
      undefined,
      "no-store",
    ]);
    expect(answer.body).toContain('<form method="post" action="/login/link">');
    expect(answer.body).toContain(`value="${ticket}"`);
    expect(used).toEqual([]);
  });

  it("signs in, and offers a password to an account that has none", async () => {
    const answer = await post("/login/link", { ticket });
    expect([answer.statusCode, answer.headers.location]).toEqual([303, "/login/password"]);
    expect(String(answer.headers["set-cookie"])).toContain("session=cookie-of-ada");
    const offer = await get("/login/password", { cookie });
    expect(offer.body).toContain("Set a password");
    expect(offer.body).toContain('<a href="/console">');
    const set = await post(
      "/login/password",
      { csrf: adasSession.csrfToken, password: "correct horse battery" },
      { cookie },
    );
    expect([set.statusCode, set.headers.location]).toEqual([303, "/console"]);
  });

  it("leads to the console when there is a password", async () => {
    const { useLink } = ports.deps.signIn;
    ports.deps.signIn.useLink = async (...given) => ({ ...(await useLink(...given)), hasPassword: true });
    expect((await post("/login/link", { ticket })).headers.location).toBe("/console");
  });

  it("that was used or has expired says so, with the sign-in page", async () => {
    const answer = await post("/login/link", { ticket: "other" });
    expect([answer.statusCode, answer.headers["set-cookie"]]).toEqual([401, undefined]);
    expect(answer.body).toContain("has expired or was used");
    expect(answer.body).toContain('href="/login/forgot"');
  });

  it("is refused from another site, as is a password", async () => {
    const headers = { origin: "http://evil.example", host: "stoker.example" };
    expect((await post("/login/link", { ticket }, headers)).statusCode).toBe(403);
    expect(
      (await post("/login/password", { csrf: "x", password: "correct horse battery" }, { cookie })).statusCode,
    ).toBe(403);
  });
});

describe("the sign-in page", () => {
  it("is public, runs no script and refuses frames", async () => {
    const answer = await get("/login");
    expect(answer.statusCode).toBe(200);
    expect(answer.headers["content-type"]).toBe("text/html; charset=utf-8");
    const policy = String(answer.headers["content-security-policy"]);
    expect(policy).toMatch(/default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'.*frame-ancestors 'none'/);
    expect(policy).not.toContain("script-src");
    expect(answer.headers["referrer-policy"]).toBe("same-origin");
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(answer.body).toContain('<form method="post" action="/login">');
    expect(answer.body).not.toContain("<script");
  });

  it("has one style, the one its policy names", async () => {
    const { body, headers } = await get("/login");
    const style = /<style>([\s\S]*?)<\/style>/.exec(body)?.[1] ?? "";
    const digest = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(style))).toString("base64");
    expect(String(headers["content-security-policy"])).toContain(`'sha256-${digest}'`);
    expect(body).not.toContain("style=");
  });

  it("signs in by its form, sets the cookie and goes on to what was asked for", async () => {
    const plain = await post("/login", rightForm);
    expect([plain.statusCode, plain.headers.location]).toEqual([303, "/login"]);
    expect(String(plain.headers["set-cookie"])).toMatch(/^session=cookie-of-ada; .*HttpOnly; SameSite=Lax/);
    const forCli = await post("/login", { ...rightForm, cli: loginId });
    expect(forCli.headers.location).toBe(`/login?cli=${loginId}`);
  });

  it("shows itself again with the reason and the address, never the password", async () => {
    const answer = await post("/login", { email: ada.email, password: "hunter2", cli: loginId });
    expect(answer.statusCode).toBe(401);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(answer.body).toContain("The e-mail address or the password is wrong.");
    expect(answer.body).toContain(`value="${ada.email}"`);
    expect(answer.body).toContain(`value="${loginId}"`);
    expect(answer.body).not.toContain("hunter2");
  });

  it("says when to come back after too many attempts", async () => {
    ports.deps.signIn.signIn = () => Promise.reject(new TooManyAttempts(90_000));
    const answer = await post("/login", rightForm);
    expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([429, "90"]);
    expect(answer.body).toContain("Try again in 2 minutes");
  });

  it("prints what was typed as text", async () => {
    const answer = await post("/login", { email: '"><script>alert(1)</script>', password: "x" });
    expect(answer.body).toContain("&quot;&gt;&lt;script&gt;");
    expect(answer.body).not.toContain("<script");
  });

  it("refuses forms of another site", async () => {
    const headers = { origin: "http://evil.example", host: "stoker.example" };
    const answer = await post("/login", rightForm, headers);
    expect(answer.statusCode).toBe(403);
    expect(answer.headers["set-cookie"]).toBeUndefined();
  });

  it("ignores a malformed login id", async () => {
    for (const cli of ["x", `${loginId}"`, "//evil.example/aaaaaaaaaaaaaaaaa"]) {
      expect((await post("/login", { ...rightForm, cli })).headers.location).toBe("/login");
      expect((await get(`/login?cli=${encodeURIComponent(cli)}`)).body).not.toContain("waits for a key");
    }
  });
});

describe("the second factor's page", () => {
  const second = { ticket: "ticket-of-ada", cli: loginId };
  beforeEach(() => {
    ports.deps.signIn.signIn = async () => ({
      ...{ is: "second_factor", ticket: second.ticket, expiresAtMs: 0, passkey: null },
      methods: ["totp", "passkey", "recovery_code"],
    });
  });

  it("follows a right password, signs nobody in yet, and leads to passkeys by way of the console", async () => {
    const answer = await post("/login", { ...rightForm, cli: loginId });
    expect(answer.statusCode).toBe(200);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(answer.body).toContain('name="ticket" value="ticket-of-ada"');
    expect(answer.body).toContain(`href="/console/sign-in?cli=${loginId}"`);
    expect(answer.body).not.toContain("<script");
    expect(answer.body).not.toContain(adasPassword);
  });

  it("signs in by its code and goes on to what was asked for", async () => {
    const answer = await post("/login/second-factor", { ...second, code: "123456" });
    expect([answer.statusCode, answer.headers.location]).toEqual([303, `/login?cli=${loginId}`]);
    expect(String(answer.headers["set-cookie"])).toContain("session=cookie-of-ada");
  });

  it("asks for the code again when it is wrong, and for everything when the ticket has expired", async () => {
    const wrong = await post("/login/second-factor", { ...second, code: "000000" });
    expect(wrong.statusCode).toBe(401);
    expect(wrong.body).toContain('name="ticket" value="ticket-of-ada"');
    expect(wrong.body).toContain('role="alert"');
    ports.deps.signIn.finish = () => Promise.reject(signInExpired());
    const late = await post("/login/second-factor", { ...second, code: "123456" });
    expect(late.statusCode).toBe(401);
    expect(late.body).toContain('name="password"');
  });

  it("refuses forms of another site", async () => {
    const headers = { origin: "http://evil.example", host: "stoker.example" };
    const answer = await post("/login/second-factor", { ...second, code: "123456" }, headers);
    expect(answer.statusCode).toBe(403);
    expect(answer.headers["set-cookie"]).toBeUndefined();
  });
});

describe("the confirmation of a command line's login", () => {
  const open = (change: object) =>
    (ports.deps.sessions as unknown as { open: Map<string, object> }).open.set(adasSession.cookie, {
      ...adasSession,
      ...change,
    });
  afterEach(() => open({}));

  it("needs a sign-in of the last 10 minutes", async () => {
    open({ authTimeMs: Date.now() - recentSignInMs - 1_000 });
    const page = await get(`/login?cli=${loginId}`, { cookie });
    expect(page.body).toContain('name="password"');
    expect(page.body).toContain("at most 10 minutes old");
    const answer = await post("/login/confirm", yes, { cookie });
    expect(answer.statusCode).toBe(403);
    expect(approved).toEqual([]);
  });

  it("needs the second factor that the installation requires", async () => {
    open({ mustEnrol: true });
    expect((await get(`/login?cli=${loginId}`, { cookie })).body).toContain(`/console/security?cli=${loginId}`);
    expect((await post("/login/confirm", yes, { cookie })).statusCode).toBe(403);
    expect(approved).toEqual([]);
  });

  const yes = { cli: loginId, csrf: adasSession.csrfToken };

  it("is asked for on a page that shows the terminal's code and whose key it will be", async () => {
    expect((await get(`/login?cli=${loginId}`)).body).toContain("A command line is waiting for a key");
    const { body } = await get(`/login?cli=${loginId}`, { cookie });
    expect(body).toContain("<code>ABCD-1234</code>");
    expect(body).toContain(`<strong>${ada.displayName}</strong>`);
    expect(approved).toEqual([]);
  });

  it("takes a signed-in person's yes", async () => {
    const answer = await post("/login/confirm", yes, { cookie });
    expect(answer.statusCode).toBe(200);
    expect(answer.body).toContain("The command line has its key");
    expect(approved).toEqual([`${ada.account} ${loginId}`]);
  });

  it("offers the person's organizations, and gives a key of the one that is chosen and no other", async () => {
    const members = fakeMembers((person) => (person === ada.account ? "developer" : undefined));
    const { actAs, organizations } = ports.deps.members;
    onTestFinished(() => void Object.assign(ports.deps.members, { actAs, organizations }));
    Object.assign(ports.deps.members, members);
    const { body } = await get(`/login?cli=${loginId}`, { cookie });
    expect(body).toContain(`<option value="${organization}">acme (owner)</option>`);
    const answer = await post("/login/confirm", { ...yes, account: organization }, { cookie });
    expect(answer.statusCode, answer.body).toBe(200);
    expect(approved).toEqual([`${organization} ${loginId}`]);
    const foreign = await post("/login/confirm", { ...yes, account: "u:1234567890123" }, { cookie });
    expect(foreign.statusCode).toBe(403);
    expect(approved).toHaveLength(1);
  });

  it.each([
    ["of nobody who is signed in", yes, {}, 200],
    ["without the form's token", { cli: loginId }, { cookie }, 403],
    ["with another session's token", { ...yes, csrf: "csrf-of-bob" }, { cookie }, 403],
    ["from another site's page", yes, { cookie, origin: "http://evil.example" }, 403],
    ["from a neighbour's page", yes, { cookie, "sec-fetch-site": "same-site" }, 403],
  ])("takes no yes %s", async (_what, form, headers, status) => {
    const answer = await post("/login/confirm", form, headers);
    expect(answer.statusCode).toBe(status);
    expect(answer.body).not.toContain("has its key");
    expect(approved).toEqual([]);
  });

  it("says when the login was answered already", async () => {
    ports.deps.cliLogins.approve = () => Promise.reject(cliLoginUsed());
    const answer = await post("/login/confirm", yes, { cookie });
    expect(answer.statusCode).toBe(404);
    expect(answer.body).toContain("Run `stoker login` again");
  });
});

describe("the page of a signed-in person", () => {
  it("names the account and signs out by its form alone", async () => {
    expect((await get("/login", { cookie })).body).toContain(`Signed in as ${ada.displayName}`);
    expect((await post("/login/sign-out", { csrf: "wrong" }, { cookie })).statusCode).toBe(403);
    expect((await get("/login", { cookie })).body).toContain("Signed in as");
    const out = await post("/login/sign-out", { csrf: adasSession.csrfToken }, { cookie });
    expect([out.statusCode, out.headers.location]).toEqual([303, "/login"]);
    expect(String(out.headers["set-cookie"])).toContain("Max-Age=0");
    expect((await get("/login", { cookie })).body).toContain("Sign in to Stoker");
  });
});
