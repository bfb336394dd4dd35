// Verified addresses and new passwords by links in mails, through a real SMTP server and from a real database.
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { linkLifeMs } from "../../../control-plane/accounts/account-mails.ts";
import { attemptLimits } from "../../../control-plane/accounts/guess-limits.ts";
import { createPasswords } from "../../../control-plane/accounts/password.ts";
import { createMail } from "../../../control-plane/wiring/mail.ts";
import { startMailServer, type TestMailServer } from "../../fakes/mail-server.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { startStack } from "../../fakes/processes.ts";
import { from, signInParts } from "../../fakes/sign-in-parts.ts";
import { log, openWorld } from "../billing/world.ts";

if (!isNightly) console.warn("NOT PROVEN here: a new password in a browser. npm run test:nightly does.");

const publicUrl = "https://stoker.example.com";
const ip = "192.0.2.1";
const password = "violet harbour nineteen kettles";
const newPassword = "seven quiet lanterns drifting";

let postgres: TestDatabases;
let server: TestMailServer;
beforeAll(async () => {
  [postgres, server] = await Promise.all([sharedPostgres(), startMailServer("a secret")]);
});
beforeEach(() => {
  server.refuse = undefined;
  server.refuseData = undefined;
  server.accepted.length = 0;
  server.recipients.length = 0;
});
afterAll(async () => {
  await server.close();
  await postgres.stop();
});

async function start({ hasPublicUrl = true } = {}) {
  const world = await openWorld(postgres);
  const clock = { aheadMs: 0 };
  const mail = await createMail({
    db: world.db,
    smtp: { url: server.url, from: "stoker@example.com" },
    publicUrl: hasPublicUrl ? publicUrl : undefined,
    pepper: world.secrets.pepper,
    log,
    registry: new Registry(),
  });
  const parts = signInParts(world, {
    unixMs: () => Date.now() + clock.aheadMs,
    ...(mail?.accountMail ? { mail: mail.accountMail } : {}),
  });
  const deliver = () => mail?.deliver(new AbortController().signal);
  const signUp = async (name: string) => {
    const email = `${name}@example.com`;
    const made = await parts.signIn.signUp({ email, password, displayName: name }, { ip });
    return { ...made, email };
  };
  const passes = (email: string, given: string, at = "198.51.100.9") =>
    parts.signIn.signIn({ email, password: given }, from(at)).then(
      (step) => step.is,
      (error) => error.code,
    );
  return { world, clock, ...parts, deliver, signUp, passes };
}
type Start = Awaited<ReturnType<typeof start>>;

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error) => error.code,
  );

/** Without quoted-printable. */
const readable = (mail: string) => mail.replaceAll("=\r\n", "").replaceAll("=3D", "=");
const lastMail = () => readable(server.accepted.at(-1) ?? "");

/** The ticket of the last mail, whose link leads to this path. */
async function ticketOf({ deliver }: Pick<Start, "deliver">, path: string): Promise<string> {
  await deliver();
  const [, found, ticket = ""] = /https:\/\/stoker\.example\.com(\/\S+)\?ticket=([\w-]{43})/.exec(lastMail()) ?? [];
  expect(found).toBe(path);
  return ticket;
}

async function asked(started: Start, email: string): Promise<string> {
  await started.accountMails.requestReset(email, ip);
  await started.accountMails.idle();
  return ticketOf(started, "/login/reset");
}

const addFactor = ({ world }: Start, account: string) =>
  world.pool.query(
    "insert into second_factor (factor_id, account_id, kind, name, sealed) values ('f' || $1, $1, 'totp', 'phone', 'x')",
    [account],
  );

it("verifies the address of a sign-up once, by a link that no row contains", async () => {
  const started = await start();
  const { accountMails, profiles, signUp, world } = started;
  const { account, email } = await signUp("ada");
  expect((await profiles.read(account)).emailVerified).toBe(false);
  const ticket = await ticketOf(started, "/login/verify");
  expect(server.recipients).toEqual([email]);
  const tables = await world.pool.query(
    "select mail::text from mail union all select c::text from sign_in_challenge c",
  );
  expect(tables.rowCount).toBe(2);
  expect(JSON.stringify(tables.rows)).not.toContain(ticket);

  await accountMails.verify(ticket, ip);
  expect((await profiles.read(account)).emailVerified).toBe(true);
  expect(await codeOf(accountMails.verify(ticket, ip))).toBe("mail_link_expired");
  expect(await codeOf(accountMails.requestVerification(account))).toBe("email_already_verified");
  const { rows } = await world.pool.query("select action, after from audit where action = 'account.verify_email'");
  expect(rows).toEqual([{ action: "account.verify_email", after: { email } }]);
});

it("verifies no address that the account has left, nor by an expired link", async () => {
  const started = await start();
  const { accountMails, profiles, signUp, clock } = started;
  const { account } = await signUp("ben");
  const first = await ticketOf(started, "/login/verify");
  await profiles.change({ account, ip }, { email: "ben.new@example.com" });
  expect(await codeOf(accountMails.verify(first, ip))).toBe("mail_link_expired");
  const second = await ticketOf(started, "/login/verify");
  expect(server.recipients.at(-1)).toBe("ben.new@example.com");
  clock.aheadMs = linkLifeMs.verify_email;
  expect(await codeOf(accountMails.verify(second, ip))).toBe("mail_link_expired");
  expect((await profiles.read(account)).emailVerified).toBe(false);
});

it("sets a new password once, ends sessions and other links, verifies the address and tells the owner", async () => {
  const started = await start();
  const { accountMails, profiles, sessions, signIn, signUp, deliver, passes } = started;
  const { account, email, session } = await signUp("cleo");
  await deliver();
  const link = await signIn.createLink({ account, ip });
  const ticket = await asked(started, email.toUpperCase());
  expect(await codeOf(accountMails.verify(ticket, ip))).toBe("mail_link_expired");
  expect(await codeOf(accountMails.reset(ticket, "password1234", ip))).toBe("weak_password");
  expect(await sessions.find(session.cookie)).toBeDefined();

  await accountMails.reset(ticket, newPassword, ip);
  expect(await sessions.find(session.cookie)).toBeUndefined();
  expect((await profiles.read(account)).emailVerified).toBe(true);
  expect(await passes(email, password)).toBe("wrong_password");
  expect(await passes(email, newPassword)).toBe("signed_in");
  expect(await codeOf(accountMails.reset(ticket, password, ip))).toBe("mail_link_expired");
  expect(await codeOf(signIn.useLink(link.ticket, from(ip)))).toBe("sign_in_expired");
  await deliver();
  expect(lastMail()).toContain("Subject: Your password was changed");
  expect(lastMail()).toContain(`from the address ${ip}`);
});

it("of two uses of one link at the same time sets one password", async () => {
  const started = await start();
  const { email } = await started.signUp("dora");
  await started.deliver();
  const ticket = await asked(started, email);
  const others = ["amber wagon thirty whistles", "copper meadow eleven sparrows"];
  const outcomes = await Promise.all(others.map((one) => codeOf(started.accountMails.reset(ticket, one, ip))));
  expect([...outcomes].sort()).toEqual(["done", "mail_link_expired"]);
  expect(await started.passes(email, others[outcomes.indexOf("done")] ?? "")).toBe("signed_in");
});

it("a link for a new password is void once the password or the address changed", async () => {
  const started = await start();
  const { accountMails, profiles, signIn, signUp, world } = started;
  const { account, email } = await signUp("eli");
  await started.deliver();
  const first = await asked(started, email);
  await signIn.setPassword({ account, ip }, { password: newPassword, current: undefined }, undefined);
  expect(await codeOf(accountMails.reset(first, password, ip))).toBe("mail_link_expired");
  const second = await asked(started, email);
  await world.pool.query("update account set email_verified = true where account_id = $1", [account]);
  await profiles.change({ account, ip }, { email: "eli.new@example.com" });
  expect(await codeOf(accountMails.reset(second, password, ip))).toBe("mail_link_expired");
  await started.deliver();
  const notice = server.accepted.find((one) => one.includes("Subject: Your e-mail address was changed"));
  expect(notice).toContain(`To: ${email}`);
});

it("answers the same for an unknown address, three times an hour to one network and ten to all", async () => {
  const started = await start();
  const { accountMails, signUp, world } = started;
  const { email } = await signUp("fay");
  const { resetsPerNetwork, resetsPerMailbox } = attemptLimits;
  const answers = async (to: string) => {
    const all: unknown[] = [];
    for (let n = 0; n < 12; n++) all.push(await codeOf(accountMails.requestReset(to, `198.51.${n >> 2}.9`)));
    return all;
  };
  const known = await answers(email);
  expect(await answers("nobody@example.com")).toEqual(known);
  expect(known.slice(0, 5)).toEqual([...Array(resetsPerNetwork.max).fill("done"), "too_many_attempts", "done"]);
  await accountMails.idle();
  const queued = await world.pool.query("select from mail where link = 'reset_password'");
  expect(queued.rowCount).toBe(known.filter((one) => one === "done").length);
  expect(queued.rowCount).toBeLessThanOrEqual(resetsPerMailbox.max);
  // All spellings that the database takes for one address count together.
  expect(await codeOf(accountMails.requestReset(email.toUpperCase(), "198.51.0.9"))).toBe("too_many_attempts");
});

it("verifies for an owner although strangers asked for links, five times a day", async () => {
  const started = await start();
  const { accountMails, signUp, profiles } = started;
  for (let n = 0; n < 12; n++) await codeOf(accountMails.requestReset("gil@example.com", `198.51.${n}.9`));
  const { account } = await signUp("gil");
  const ticket = await ticketOf(started, "/login/verify");
  const more: unknown[] = [];
  for (let n = 0; n < attemptLimits.verificationsPerAccount.max; n++)
    more.push(await codeOf(accountMails.requestVerification(account)));
  expect(more).toEqual(["done", "done", "done", "done", "too_many_attempts"]);
  await accountMails.verify(ticket, ip);
  expect((await profiles.read(account)).emailVerified).toBe(true);
});

it("a new password ends a sign-in, a link and a change of the password that are in progress", async () => {
  const started = await start();
  const { account, email } = await started.signUp("kay");
  await started.deliver();
  const ticket = await asked(started, email);
  // Each waits for the hash of the earlier password until the new one is set.
  const held = Promise.withResolvers<void>();
  const waiting = Promise.withResolvers<void>();
  let verifying = 0;
  const real = createPasswords(started.world.secrets.pepper);
  const slow = signInParts(started.world, {
    unixMs: Date.now,
    passwords: {
      hash: real.hash,
      async verify(...given) {
        const isRight = await real.verify(...given);
        verifying += 1;
        if (verifying === 2) waiting.resolve();
        await held.promise;
        return isRight;
      },
    },
  });
  const session = await started.signIn.signIn({ email, password }, from(ip));
  if (session.is !== "signed_in") throw new Error("a second factor is required");
  const own = await started.sessions.find(session.session.cookie);
  const inProgress = Promise.all([
    codeOf(slow.signIn.signIn({ email, password }, from("198.51.100.7"))),
    codeOf(
      slow.signIn.setPassword({ account, ip }, { password: "thieves prefer quiet mornings", current: password }, own),
    ),
  ]);
  await waiting.promise;
  await started.accountMails.reset(ticket, newPassword, ip);
  held.resolve();
  expect(await inProgress).toEqual(["sign_in_expired", "sign_in_expired"]);
  const { rows } = await started.world.pool.query("select from login_session where account_id = $1", [account]);
  expect(rows).toEqual([]);
  expect(await started.passes(email, newPassword)).toBe("signed_in");
});

it("takes an account that a stranger made with the address, and never verified, from the stranger", async () => {
  const started = await start();
  const { account, email, apiKey } = await started.signUp("lea");
  await started.deliver();
  await addFactor(started, account);
  await started.accountMails.reset(await asked(started, email), newPassword, ip);
  expect(await started.passes(email, newPassword)).toBe("signed_in");
  const keys = await started.world.pool.query("select from api_key where account_id = $1 and revoked_at is null", [
    account,
  ]);
  expect([apiKey.length > 0, keys.rowCount]).toEqual([true, 0]);
});

it("stores and logs no link that works, where the mail server repeats what it refuses", async () => {
  const started = await start();
  const { email } = await started.signUp("mia");
  await started.deliver();
  server.refuseData = (message) => ({ code: 554, message: `rejected: ${message}` });
  await started.accountMails.requestReset(email, ip);
  await started.accountMails.idle();
  await started.deliver();
  const { rows } = await started.world.pool.query("select error, state from mail where link = 'reset_password'");
  const [, ticket = ""] = /ticket=([\w-]{43})/.exec(readable(rows[0].error)) ?? [];
  expect(rows[0].state).toBe("failed");
  expect(await codeOf(started.accountMails.reset(ticket, newPassword, ip))).toBe("mail_link_expired");
  const tickets = await started.world.pool.query("select from sign_in_challenge where purpose = 'reset_password'");
  expect(tickets.rowCount).toBe(0);
});

it("mails no link to an address without a domain of the internet", async () => {
  const started = await start();
  const { account } = await started.signUp("nia");
  await started.deliver();
  await started.world.pool.query("update account set email = 'admin@localhost' where account_id = $1", [account]);
  await started.accountMails.requestReset("admin@localhost", ip);
  await started.accountMails.idle();
  expect((await started.world.pool.query("select from mail where link = 'reset_password'")).rowCount).toBe(0);
});

it("tells the owner of a new password also after twenty other mails of the day", async () => {
  const started = await start();
  const { account } = await started.signUp("ola");
  await started.accountMails.verify(await ticketOf(started, "/login/verify"), ip);
  await started.world.pool.query(
    `insert into mail (mail_id, account_id, recipient, subject, body, state)
     select 'mail_old' || n, $1, '', '', '', 'sent' from generate_series(1, 20) n`,
    [account],
  );
  await started.signIn.setPassword({ account, ip }, { password: newPassword, current: undefined }, undefined);
  await started.deliver();
  expect(lastMail()).toContain("Subject: Your password was changed");
});

it("still requires the second factor after a new password", async () => {
  const started = await start();
  const { account, email } = await started.signUp("gus");
  await started.accountMails.verify(await ticketOf(started, "/login/verify"), ip);
  const ticket = await asked(started, email);
  await addFactor(started, account);
  await started.accountMails.reset(ticket, newPassword, ip);
  expect(await started.passes(email, newPassword)).toBe("second_factor");
});

it("mails no link where the public address is unknown, and signs up all the same", async () => {
  const { accountMails, signUp, deliver, world } = await start({ hasPublicUrl: false });
  const { account, email } = await signUp("hal");
  expect(await codeOf(accountMails.requestVerification(account))).toBe("mail_disabled");
  expect(await codeOf(accountMails.requestReset(email, ip))).toBe("mail_disabled");
  await deliver();
  expect(server.accepted).toEqual([]);
  expect((await world.pool.query("select from mail")).rowCount).toBe(0);
});

it.runIf(isNightly)(
  "leads a person who forgot the password from the sign-in page through the mail to a session",
  async () => {
    const stack = await startStack({
      agents: 0,
      controlPlaneEnv: {
        STOKER_SIGN_UP: "open",
        STOKER_SMTP_URL: server.url,
        STOKER_MAIL_FROM: "stoker@example.com",
        STOKER_PUBLIC_URL: publicUrl,
      },
    });
    onTestFinished(() => stack.stop());
    const post = (path: string, body: Record<string, string>, isForm = true) =>
      fetch(stack.url + path, {
        method: "POST",
        redirect: "manual",
        headers: { "content-type": isForm ? "application/x-www-form-urlencoded" : "application/json" },
        body: isForm ? new URLSearchParams(body) : JSON.stringify(body),
      });
    const pageOf = async (reply: Response) => ({ status: reply.status, text: await reply.text() });
    const email = "ivy@example.com";
    expect((await post("/v1/auth/sign-up", { email, password, display_name: "ivy" }, false)).status).toBe(200);
    expect(await (await fetch(`${stack.url}/login`)).text()).toContain('href="/login/forgot"');
    expect(await pageOf(await post("/login/forgot", { email }))).toMatchObject({
      status: 200,
      text: expect.stringContaining("If an account has this address"),
    });
    await vi.waitFor(() => expect(server.accepted).toHaveLength(2), { timeout: 60_000, interval: 200 });
    const ticketFor = (path: string) => {
      const mails = server.accepted.map(readable);
      return mails.map((mail) => mail.split(`${publicUrl}${path}?ticket=`)[1]?.slice(0, 43)).find(Boolean) ?? "";
    };

    const ticket = ticketFor("/login/reset");
    const shown = await pageOf(await fetch(`${stack.url}/login/reset?ticket=${ticket}`));
    expect(shown.text).toContain(`value="${ticket}"`);
    const weak = await pageOf(await post("/login/reset", { ticket, password: "password1234" }));
    expect(weak).toMatchObject({ status: 422, text: expect.stringContaining("easy to guess") });
    expect(weak.text).toContain(`value="${ticket}"`);
    expect((await post("/login/reset", { ticket, password: newPassword })).status).toBe(200);
    const again = await pageOf(await post("/login/reset", { ticket, password: newPassword }));
    expect(again).toMatchObject({ status: 401, text: expect.stringContaining("Ask for a new one") });
    const signedIn = await post("/login", { email, password: newPassword });
    expect([signedIn.status, signedIn.headers.get("set-cookie")]).toEqual([303, expect.stringContaining("session=")]);

    const verify = ticketFor("/login/verify");
    expect((await fetch(`${stack.url}/login/verify?ticket=${verify}`)).status).toBe(200);
    expect(await pageOf(await post("/login/verify", { ticket: verify }))).toMatchObject({
      status: 200,
      text: expect.stringContaining("The address is confirmed"),
    });
  },
  120_000,
);
