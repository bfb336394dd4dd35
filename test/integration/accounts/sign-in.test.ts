// Passwords and sessions on a real PostgreSQL, with an injected clock.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { attemptLimits } from "../../../control-plane/accounts/guess-limits.ts";
import { createPasswords } from "../../../control-plane/accounts/password.ts";
import { maxSessionMs, sessionIdleMs, sessionIdOf } from "../../../control-plane/accounts/sessions.ts";
import type { Credentials, SignIn } from "../../../control-plane/accounts/sign-in.ts";
import { createProfileStore } from "../../../control-plane/store/accounts/profile-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { from, signInParts } from "../../fakes/sign-in-parts.ts";
import { openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const ip = "192.0.2.1";
const email = "ada@example.com";
const password = "correct horse";
const begunAt = Date.UTC(2026, 0, 1);

/** `isHashing`: false where many attempts are made and what a hash costs does not matter. */
async function signedUp({ isSignUpOpen = true, isHashing = true } = {}) {
  const world = await openWorld(postgres);
  const { account } = await world.accounts.createAccount({
    email,
    displayName: "ada",
    creditNanoUsd: nano(0n),
    isAdmin: false,
  });
  const clock = { unixMs: begunAt };
  const { pepper } = world.secrets;
  const real = createPasswords(pepper);
  const verified: (string | undefined)[] = [];
  const passwords = {
    hash: real.hash,
    verify: (given: string, hash: string | undefined) => {
      verified.push(hash);
      return isHashing ? real.verify(given, hash) : Promise.resolve(given === password);
    },
  };
  const part = () => signInParts(world, { unixMs: () => clock.unixMs, passwords, isSignUpOpen });
  const { sessions, profiles, signIn: first } = part();
  const replica = () => byPassword(part().signIn);
  const signIn = byPassword(first);
  const actor = { account, ip };
  await signIn.setPassword(actor, { password, current: undefined }, undefined);
  return { world, clock, sessions, profiles, signIn, replica, actor, account, verified };
}

/** The sign-in of accounts without a second factor: it ends with its first step. */
const byPassword = (signIn: SignIn) => ({
  ...signIn,
  async signIn(request: Credentials, ip: string, cookie: string | undefined) {
    const step = await signIn.signIn(request, from(ip, { cookie }));
    if (step.is !== "signed_in") throw new Error("a second factor is asked for");
    return step.session;
  },
});

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error) => error.code,
  );

describe("signing in", () => {
  it("opens a session of the account, whatever the case of the address", async () => {
    const { sessions, signIn, account } = await signedUp();
    const { cookie, caller } = await signIn.signIn({ email: "ADA@Example.com", password }, ip, undefined);
    expect(caller).toMatchObject({ account, via: "session", isAdmin: false, models: null });
    const found = await sessions.find(cookie);
    expect(found?.caller).toEqual(caller);
    expect(found?.csrfToken).toMatch(/^[\w-]{43}$/);
  });

  it("responds identically to an unknown address, a wrong password and an account without one, after one hash each", async () => {
    const { world, signIn, verified } = await signedUp();
    await world.accounts.createAccount({
      email: "b@example.com",
      displayName: "b",
      creditNanoUsd: nano(0n),
      isAdmin: false,
    });
    const messages = [];
    for (const request of [
      { email, password: "wrong" },
      { email: "nobody@example.com", password },
      { email: "b@example.com", password },
    ]) {
      const error = await signIn.signIn(request, ip, undefined).catch((refusal) => refusal);
      expect(error).toMatchObject({ code: "wrong_password" });
      messages.push(error.message);
    }
    expect(new Set(messages).size).toBe(1);
    expect(verified.map((hash) => hash !== undefined)).toEqual([true, false, false]);
  });

  it("never reuses the cookie of a browser, and ends that session", async () => {
    const { sessions, signIn } = await signedUp();
    const planted = "A".repeat(43);
    const first = await signIn.signIn({ email, password }, ip, planted);
    expect(first.cookie).not.toBe(planted);
    expect(await sessions.find(planted)).toBeUndefined();
    const second = await signIn.signIn({ email, password }, ip, first.cookie);
    expect(second.cookie).not.toBe(first.cookie);
    expect(second.csrfToken).not.toBe(first.csrfToken);
    expect(await sessions.find(first.cookie)).toBeUndefined();
    expect(await sessions.find(second.cookie)).toBeDefined();
  });

  it("is refused after ten wrong passwords from one network for 15 minutes, also with the right one, but not for other accounts", async () => {
    const { world, clock, signIn } = await signedUp();
    const ends = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        codeOf(signIn.signIn({ email, password: "wrong" }, `2001:db8::${i}`, undefined)),
      ),
    );
    expect(ends.filter((end) => end === "wrong_password")).toHaveLength(10);
    expect(ends.filter((end) => end === "too_many_attempts")).toHaveLength(2);
    expect(await codeOf(signIn.signIn({ email: email.toUpperCase(), password }, "2001:db8::99", undefined))).toBe(
      "too_many_attempts",
    );
    const { account } = await world.accounts.createAccount({
      email: "b@example.com",
      displayName: "b",
      creditNanoUsd: nano(0n),
      isAdmin: false,
    });
    await signIn.setPassword({ account, ip }, { password, current: undefined }, undefined);
    expect(await codeOf(signIn.signIn({ email: "b@example.com", password }, ip, undefined))).toBe("done");
    clock.unixMs += 900_000;
    expect(await codeOf(signIn.signIn({ email, password }, ip, undefined))).toBe("done");
  });

  it("stays possible for the account's owner while others guess, up to 200 guesses in total", async () => {
    const { signIn } = await signedUp({ isHashing: false });
    const guess = (from: string) => codeOf(signIn.signIn({ email, password: "wrong" }, from, undefined));
    for (let i = 0; i < 12; i++) await guess("198.51.100.7");
    expect(await guess("198.51.100.7")).toBe("too_many_attempts");
    expect(await codeOf(signIn.signIn({ email, password }, ip, undefined))).toBe("done");
    const most = attemptLimits.perEmail.max;
    const ends = [];
    for (let i = 0; i < most + 1; i++) ends.push(await guess(`203.0.113.${i}`));
    expect(ends.slice(0, most).every((end) => end === "wrong_password")).toBe(true);
    expect(ends[most]).toBe("too_many_attempts");
    expect(await codeOf(signIn.signIn({ email, password }, ip, undefined))).toBe("too_many_attempts");
  });

  it("is counted over all control planes", async () => {
    const { signIn, replica, clock } = await signedUp({ isHashing: false });
    const replicas = [signIn, replica(), replica()];
    const ends = await Promise.all(
      Array.from({ length: 15 }, (_, n) =>
        codeOf(replicas[n % 3]?.signIn({ email, password: "wrong" }, ip, undefined) as Promise<unknown>),
      ),
    );
    expect(ends.filter((end) => end === "wrong_password")).toHaveLength(10);
    expect(ends.filter((end) => end === "too_many_attempts")).toHaveLength(5);
    // A control plane that has just started knows of them, too.
    expect(await codeOf(replica().signIn({ email, password }, ip, undefined))).toBe("too_many_attempts");
    clock.unixMs += 900_000;
    expect(await codeOf(replica().signIn({ email, password }, ip, undefined))).toBe("done");
  });

  it("stores no address and no account name of attempts", async () => {
    const { world, signIn } = await signedUp({ isHashing: false });
    await codeOf(signIn.signIn({ email: "secret@example.com", password: "wrong" }, "203.0.113.77", undefined));
    const rows = await world.db.selectFrom("signInAttempt").selectAll().execute();
    expect(rows.length).toBeGreaterThanOrEqual(3);
    expect(rows.every((row) => row.key.length === 32)).toBe(true);
  });

  it("is refused after 30 attempts from one address, for any accounts", async () => {
    const { signIn } = await signedUp();
    const ends = [];
    for (let i = 0; i < 31; i++)
      ends.push(
        await codeOf(
          signIn.signIn({ email: `nobody${i}@example.com`, password: "x" }, `2001:db8::${i + 1}`, undefined),
        ),
      );
    expect(ends.slice(0, 30)).toEqual(Array(30).fill("wrong_password"));
    expect(ends[30]).toBe("too_many_attempts");
    expect(await codeOf(signIn.signIn({ email, password }, "2001:db8:0:1::1", undefined))).toBe("done");
    // Thirty argon2 hashes: seconds on a quiet machine.
  }, 300_000);
});

describe("a session", () => {
  it("ends 14 days after its last use", async () => {
    const { clock, sessions, actor } = await signedUp();
    const { cookie } = await sessions.begin(actor, ["password"]);
    clock.unixMs = begunAt + sessionIdleMs - 1;
    expect((await sessions.find(cookie))?.endsAtMs).toBe(clock.unixMs + sessionIdleMs);
    clock.unixMs += sessionIdleMs;
    expect(await sessions.find(cookie)).toBeUndefined();
  });

  it("ends 90 days after its start, however much it is used", async () => {
    const { clock, sessions, actor } = await signedUp();
    const { cookie } = await sessions.begin(actor, ["password"]);
    for (; clock.unixMs < begunAt + maxSessionMs; clock.unixMs += sessionIdleMs / 2)
      expect(await sessions.find(cookie)).toBeDefined();
    clock.unixMs = begunAt + maxSessionMs;
    expect(await sessions.find(cookie)).toBeUndefined();
  });

  it("is stored only as a keyed hash", async () => {
    const { world, sessions, actor } = await signedUp();
    const { cookie, csrfToken } = await sessions.begin(actor, ["password"]);
    const { rows } = await world.pool.query(
      "select s::text as row from login_session s union all select a::text from audit a union all select p::text from password p",
    );
    const dump = rows.map(({ row }) => row).join("\n");
    expect(dump).toContain(actor.account);
    for (const secret of [cookie, csrfToken, password])
      for (const form of [
        secret,
        Buffer.from(secret).toString("hex"),
        Buffer.from(secret, "base64url").toString("hex"),
      ])
        expect(dump).not.toContain(form);
  });

  it("has its own CSRF token, and accepts no other session's", async () => {
    const { sessions, actor } = await signedUp();
    const [one, two] = await Promise.all([sessions.begin(actor, ["password"]), sessions.begin(actor, ["password"])]);
    expect(sessions.hasCsrfToken(one, one.csrfToken)).toBe(true);
    for (const wrong of [two.csrfToken, "", one.csrfToken.slice(1), `${one.csrfToken}x`])
      expect(sessions.hasCsrfToken(one, wrong)).toBe(false);
  });

  it("has the current state of the account", async () => {
    const { world, sessions, actor } = await signedUp();
    const { cookie } = await sessions.begin(actor, ["password"]);
    await world.pool.query("update account set is_admin = true, suspend_reason = 'admin'");
    expect((await sessions.find(cookie))?.caller).toMatchObject({ isAdmin: true, suspendReason: "admin" });
    await world.pool.query("update account set deleted_at = now()");
    expect(await sessions.find(cookie)).toBeUndefined();
  });
});

describe("the list of sessions", () => {
  it("shows where each began, and ends the chosen one only", async () => {
    const { world, sessions, actor, account } = await signedUp();
    const mine = await sessions.begin(actor, ["password"], { userAgent: "Firefox on Linux" });
    const other = await sessions.begin(actor, ["password", "totp"]);
    const listed = await sessions.list(account);
    expect(listed).toContainEqual(
      expect.objectContaining({ id: sessionIdOf(mine), userAgent: "Firefox on Linux", ip: actor.ip }),
    );
    expect(listed).toContainEqual(expect.objectContaining({ id: sessionIdOf(other), factors: ["password", "totp"] }));
    const stranger = await world.account(0n);
    expect(await sessions.list(stranger)).toEqual([]);
    expect(await codeOf(sessions.revoke({ ...actor, account: stranger }, sessionIdOf(other)))).toBe(
      "session_not_found",
    );
    await sessions.revoke(actor, sessionIdOf(other));
    expect(await sessions.find(other.cookie)).toBeUndefined();
    expect(await sessions.find(mine.cookie)).toBeDefined();
    expect(await codeOf(sessions.revoke(actor, sessionIdOf(other)))).toBe("session_not_found");
    const { rows } = await world.pool.query("select before from audit where action = 'session.revoke'");
    expect(rows).toEqual([{ before: { id: sessionIdOf(other) } }]);
  });
});

describe("a password", () => {
  it("is changed with the current one, which ends every other session", async () => {
    const { world, sessions, signIn, actor } = await signedUp();
    const [mine, other] = await Promise.all([sessions.begin(actor, ["password"]), sessions.begin(actor, ["password"])]);
    const change = (current: string | undefined) =>
      signIn.setPassword(actor, { password: "battery staple", current }, mine);
    expect(await codeOf(change(undefined))).toBe("wrong_password");
    expect(await codeOf(change("wrong"))).toBe("wrong_password");
    await change(password);
    expect(await sessions.find(mine.cookie)).toBeDefined();
    expect(await sessions.find(other.cookie)).toBeUndefined();
    expect(await codeOf(signIn.signIn({ email, password }, ip, undefined))).toBe("wrong_password");
    expect(await codeOf(signIn.signIn({ email, password: "battery staple" }, ip, undefined))).toBe("done");
    const { rows } = await world.pool.query(
      "select action, ip, after from audit where action = 'password.set' order by audit_id desc limit 1",
    );
    expect(rows).toEqual([{ action: "password.set", ip, after: { sessions_ended: 1 } }]);
  });

  it("cannot be guessed through a stolen session", async () => {
    const { sessions, signIn, actor } = await signedUp();
    const session = await sessions.begin(actor, ["password"]);
    const change = (current: string) =>
      codeOf(signIn.setPassword(actor, { password: "battery staple", current }, session));
    for (let i = 0; i < 10; i++) expect(await change(`guess ${i}`)).toBe("wrong_password");
    expect(await change(password)).toBe("too_many_attempts");
  });

  it("is reset with an API key, which ends every session", async () => {
    const { sessions, signIn, actor } = await signedUp();
    const session = await sessions.begin(actor, ["password"]);
    await signIn.setPassword(actor, { password: "battery staple", current: undefined }, undefined);
    expect(await sessions.find(session.cookie)).toBeUndefined();
    const nobody = { account: "u:0000000000000" as AccountId, ip };
    await expect(signIn.setPassword(nobody, { password, current: undefined }, undefined)).rejects.toThrow(
      /no longer exists/,
    );
  });
});

describe("signing up", () => {
  const request = { email: "new@example.com", password, displayName: "new" };

  it("is closed unless the operator enables it", async () => {
    const { world, signIn } = await signedUp({ isSignUpOpen: false });
    await expect(signIn.signUp(request, { ip })).rejects.toMatchObject({ code: "sign_up_closed" });
    const { rows } = await world.pool.query("select count(*) as n from account");
    expect(rows).toEqual([{ n: 1n }]);
  });

  it("creates an account without credit, with an unverified address, and signs in to it", async () => {
    const { world, sessions, signIn, profiles } = await signedUp();
    const { account, apiKey, session } = await signIn.signUp(request, { ip, userAgent: "Firefox on Linux" });
    expect(await sessions.list(account)).toMatchObject([{ userAgent: "Firefox on Linux", ip }]);
    expect(apiKey).toMatch(/^stk_/);
    expect((await sessions.find(session.cookie))?.caller.account).toBe(account);
    expect(await world.budget(account)).toEqual({ limit: 0n, spent: 0n, leased: 0n });
    const profile = await profiles.read(account);
    expect(profile).toMatchObject({ emailVerified: false, isAdmin: false });
    expect(await codeOf(signIn.signIn(request, ip, undefined))).toBe("done");
    const { rows } = await world.pool.query(
      "select actor, ip, note from audit where action = 'account.create' and subject = $1",
      [account],
    );
    expect(rows).toEqual([{ actor: account, ip, note: "sign-up" }]);
  });

  it("with a taken address does not change its password", async () => {
    const { signIn } = await signedUp();
    await expect(
      signIn.signUp({ ...request, email: "Ada@example.com", password: "battery staple" }, { ip }),
    ).rejects.toMatchObject({ code: "name_taken" });
    expect(await codeOf(signIn.signIn({ email, password }, ip, undefined))).toBe("done");
  });

  it("with a display name that differs from another only in case is refused, as is changing to one", async () => {
    const { world, signIn } = await signedUp();
    const { account } = await signIn.signUp({ ...request, email: "one@example.com", displayName: "Grace" }, { ip });
    await expect(
      signIn.signUp({ ...request, email: "two@example.com", displayName: "gRACE" }, { ip }),
    ).rejects.toMatchObject({
      code: "name_taken",
    });
    const { account: other } = await signIn.signUp(
      { ...request, email: "two@example.com", displayName: "hopper" },
      { ip },
    );
    const profiles = createProfileStore(world.db);
    expect(await profiles.changeProfile({ account: other, ip }, { displayName: "GRACE" })).toBe("name_taken");
    expect(await profiles.changeProfile({ account, ip }, { displayName: "grace" })).toBe("changed");
  });
});

/** Any value that the table accepts, because no code is checked. */
const addFactor = (world: Awaited<ReturnType<typeof openWorld>>, account: AccountId) =>
  world.db
    .insertInto("secondFactor")
    .values({
      factorId: "f1",
      accountId: account,
      kind: "totp",
      name: "telephone",
      sealed: Buffer.alloc(8),
      counter: 0n,
    })
    .execute();

describe("a sign-in link", () => {
  it("signs in once, is stored only as a hash, and is audited", async () => {
    const { world, sessions, signIn, actor, account } = await signedUp();
    const { ticket } = await signIn.createLink(actor);
    const stored = JSON.stringify(await world.db.selectFrom("signInChallenge").selectAll().execute());
    expect(stored).not.toContain(ticket);
    const { session, hasPassword } = await signIn.useLink(ticket, from(ip));
    expect([session.caller.account, session.factors, hasPassword]).toEqual([account, ["link"], true]);
    expect(await sessions.find(session.cookie)).toBeDefined();
    expect(await codeOf(signIn.useLink(ticket, from(ip)))).toBe("sign_in_expired");
    const audit = await world.db.selectFrom("audit").select("action").orderBy("auditId").execute();
    expect(audit.map(({ action }) => action)).toEqual(expect.arrayContaining(["sign_in_link.create", "session.begin"]));
  });

  it("is used by only one of two concurrent requests", async () => {
    const { signIn, actor } = await signedUp();
    const { ticket } = await signIn.createLink(actor);
    const codes = await Promise.all([1, 2, 3].map(() => codeOf(signIn.useLink(ticket, from(ip)))));
    expect(codes.filter((code) => code === "done")).toHaveLength(1);
  });

  it("expires after 15 minutes", async () => {
    const { signIn, actor, clock } = await signedUp();
    const { ticket } = await signIn.createLink(actor);
    clock.unixMs += 15 * 60_000;
    expect(await codeOf(signIn.useLink(ticket, from(ip)))).toBe("sign_in_expired");
  });

  it("does not open a session of an account with a second factor, however it got one", async () => {
    const { world, signIn, actor, account } = await signedUp();
    const { ticket } = await signIn.createLink(actor);
    await addFactor(world, account);
    expect(await codeOf(signIn.useLink(ticket, from(ip)))).toBe("sign_in_expired");
    expect(await codeOf(signIn.createLink(actor))).toBe("session_required");
  });

  it("is no ticket of another step", async () => {
    const { signIn, actor } = await signedUp();
    const { ticket } = await signIn.createLink(actor);
    expect(await codeOf(signIn.finish({ ticket, code: "123456", passkey: undefined }, from(ip)))).toBe(
      "sign_in_expired",
    );
  });
});
