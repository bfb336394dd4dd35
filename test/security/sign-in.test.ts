// Attacks on sign-in: brute force, enumeration, session fixation, changes without a fresh proof.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { attemptLimits } from "../../control-plane/accounts/guess-limits.ts";
import type { Session } from "../../control-plane/accounts/sessions.ts";
import { Authenticator } from "../fakes/authenticator.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";
import { from, site } from "../fakes/sign-in-parts.ts";
import { asked, email, endOf, home, password, signInStage } from "../fakes/sign-in-stage.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());
const stage = () => signInStage(postgres);
const quarterHourMs = 900_000;

describe("probing for addresses that have an account", () => {
  const free = (n: number) => ({
    email: `new${n}@example.com`,
    password: "battery staple lake",
    displayName: `new${n}`,
  });
  const taken = { ...free(0), email };

  it("computes the same password hash at sign-up for a taken address and a free one", async () => {
    const { signIn, hashed } = await stage();
    const before = hashed.length;
    expect(await endOf(signIn.signUp(taken, { ip: home }))).toBe("name_taken");
    expect(await endOf(signIn.signUp(free(1), { ip: home }))).toBe("done");
    expect(hashed.slice(before)).toEqual([taken.password, taken.password]);
  });

  it("ends after 30 sign-ups from one network in 15 minutes, at all control planes, for taken and free addresses", async () => {
    const { replica, clock, hashed } = await stage();
    const replicas = [replica(), replica()];
    const signUp = (n: number, request = taken) =>
      endOf((replicas[n % 2] ?? replica()).signIn.signUp(request, { ip: home }));
    const { max } = attemptLimits.perAddress;
    for (let n = 0; n < max; n++) expect(await signUp(n), `sign-up ${n}`).toBe("name_taken");
    const before = hashed.length;
    expect(await signUp(0)).toBe("too_many_attempts");
    expect(await signUp(1, free(1))).toBe("too_many_attempts");
    expect(hashed).toHaveLength(before);
    clock.ms += quarterHourMs;
    expect(await signUp(0, free(1))).toBe("done");
  });

  it("counts changes of an account's address with sign-ups from the same network", async () => {
    const { signIn, profiles, account, make, world } = await stage();
    await make("bob");
    const change = (address: string) => endOf(profiles.change({ account, ip: home }, { email: address }));
    for (let n = 0; n < 10; n++) expect(await endOf(signIn.signUp(taken, { ip: home }))).toBe("name_taken");
    for (let n = 10; n < attemptLimits.perAddress.max; n++)
      expect(await change("bob@example.com"), `change ${n}`).toBe("name_taken");
    expect(await change("bob@example.com")).toBe("too_many_attempts");
    expect(await change("new@example.com")).toBe("too_many_attempts");
    expect(await endOf(profiles.change({ account, ip: home }, { firstName: "Ada" }))).toBe("done");
    const { rows } = await world.pool.query("select email from account where account_id = $1", [account]);
    expect(rows).toEqual([{ email }]);
  });
});

describe("guessing", () => {
  it("ends at 200 passwords of one account, from however many networks, at however many control planes", async () => {
    const { replica, clock, enter, audit, account } = await stage();
    const { device } = await enter(from("192.0.2.200"));
    const replicas = [replica(), replica(), replica()];
    const ends: unknown[] = [];
    for (let network = 0; network < 25; network++)
      for (let n = 0; n < 10; n++)
        ends.push(
          await endOf(
            (replicas[n % 3] ?? replica()).signIn.signIn(
              { email, password: `guess ${n}` },
              from(`203.0.113.${network}`),
            ),
          ),
        );
    expect(ends.filter((end) => end === "wrong_password")).toHaveLength(attemptLimits.perEmail.max);
    expect(new Set(ends)).toEqual(new Set(["wrong_password", "too_many_attempts"]));
    expect(await audit("sign_in.limited")).toEqual([
      { account_id: account, ip: "203.0.113.20", after: { what: "password" } },
    ]);
    // The owner comes in by a browser of his own, and everywhere once the window has ended.
    expect(await endOf(enter(from(home)))).toBe("too_many_attempts");
    expect(await endOf(enter(from(home, { device })))).toBe("done");
    clock.ms += quarterHourMs;
    expect(await endOf(enter(from(home)))).toBe("done");
  });

  it("ends at 30 passwords from one network, whomever they are for, and spares who signs in there", async () => {
    const { signIn, enter } = await stage();
    for (let n = 0; n < 40; n++) await enter();
    const ends: unknown[] = [];
    for (let n = 0; n < 31; n++)
      ends.push(await endOf(signIn.signIn({ email: `nobody${n}@example.com`, password }, from(home))));
    expect(ends.filter((end) => end === "wrong_password")).toHaveLength(attemptLimits.perAddress.max);
    expect(ends.at(-1)).toBe("too_many_attempts");
  });

  it("stops codes at 50 a day for a caller with the password, while the owner's device and passkey still work", async () => {
    const { enter, addApp, addPasskey, signIn, clock, account, audit, replica } = await stage();
    const { session, device } = await enter();
    const app = await addApp(session);
    const { authenticator } = await addPasskey(session);
    const guesses: unknown[] = [];
    const guess = async (ip: string) => {
      const step = await signIn.signIn({ email, password }, from(ip)).catch((error) => error.code);
      if (step === "too_many_attempts") return step;
      return endOf(
        replica().signIn.finish({ ticket: asked(step).ticket, code: "000000", passkey: undefined }, from(ip)),
      );
    };
    // One network is refused after ten, side by side as well.
    const together = await Promise.all(Array.from({ length: 12 }, () => guess("198.51.100.1")));
    expect(together.filter((end) => end === "wrong_second_factor").length).toBeLessThanOrEqual(10);
    guesses.push(...together);
    for (let quarter = 0; quarter < 8; quarter++) {
      for (let n = 0; n < 10; n++) guesses.push(await guess(`198.51.100.${quarter + 2}`));
      clock.ms += quarterHourMs;
    }
    expect(guesses.filter((end) => end === "wrong_second_factor")).toHaveLength(attemptLimits.codesPerDay.max);
    expect((await audit("second_factor.refused")).length).toBe(attemptLimits.codesPerDay.max);
    expect((await audit("sign_in.limited")).some((row) => row.account_id === account)).toBe(true);

    const stranger = asked(await signIn.signIn({ email, password }, from("198.51.100.99")));
    const right = { ticket: stranger.ticket, code: app.code(), passkey: undefined };
    expect(await endOf(signIn.finish(right, from("198.51.100.99")))).toBe("too_many_attempts");
    const key = asked(await signIn.signIn({ email, password }, from("198.51.100.100")));
    const signed = authenticator.get(site, key.passkey?.challenge ?? "");
    const byKey = { ticket: key.ticket, code: undefined, passkey: signed };
    const owner = from(home, { device });
    const own = asked(await signIn.signIn({ email, password }, owner));
    expect(await endOf(signIn.finish({ ...right, ticket: own.ticket }, owner))).toBe("done");
    expect(await endOf(signIn.finish(byKey, from("198.51.100.100")))).toBe("done");
  });

  it("keeps a separate count for the owner's device on the owner's own network", async () => {
    const { signIn, enter } = await stage();
    const { device } = await enter();
    const ends: unknown[] = [];
    for (let n = 0; n < 11; n++) ends.push(await endOf(signIn.signIn({ email, password: "x" }, from(home))));
    expect(ends.at(-1)).toBe("too_many_attempts");
    expect(await endOf(enter(from(home)))).toBe("too_many_attempts");
    expect(await endOf(enter(from(home, { device })))).toBe("done");
  });

  it("reveals nothing: unknown accounts, wrong passwords and accounts without one take the same steps", async () => {
    const { signIn, hashes, make, world } = await stage();
    await make("bob");
    const seen: unknown[] = [];
    for (const request of [
      { email: "nobody@example.com", password },
      { email: "bob@example.com", password },
      { email, password: "wrong" },
    ]) {
      hashes.length = 0;
      const error = await signIn.signIn(request, from(home)).catch((refusal) => refusal);
      const counted = await world.pool.query("select count(*) as n from sign_in_attempt");
      seen.push([error.code, error.message, hashes.length, Number(counted.rows[0].n)]);
    }
    const [, , counted] = seen.map((one) => (one as unknown[])[3] as number);
    // One counter of the address, and two for each e-mail address.
    expect(counted).toBe(7);
    expect(new Set(seen.map((one) => JSON.stringify((one as unknown[]).slice(0, 3)))).size).toBe(1);
    // Also where it is refused for its number.
    for (const name of ["nobody@example.com", email]) {
      const ends = [];
      for (let n = 0; n < 11; n++)
        ends.push(await endOf(signIn.signIn({ email: name, password: "x" }, from("192.0.2.9"))));
      expect(ends.at(-1), name).toBe("too_many_attempts");
    }
    // Whether an account has a second factor is seen by who knows its password.
    const { options } = await signIn.startPasskey(from("192.0.2.10"));
    expect(options).not.toHaveProperty("allowCredentials.0");
  });

  it("counts unknown passkeys and their starts by address", async () => {
    const { signIn, byPasskey } = await stage();
    const stranger = new Authenticator();
    const ends: unknown[] = [];
    for (let n = 0; n < 31; n++) {
      const { ticket, options } = await signIn.startPasskey(from(home));
      ends.push(await endOf(byPasskey(ticket, stranger.get(site, options.challenge))));
    }
    expect(ends.slice(0, 30)).toEqual(Array(30).fill("wrong_second_factor"));
    expect(ends[30]).toBe("too_many_attempts");
    for (let n = 31; n < attemptLimits.passkeyStarts.max; n++) await signIn.startPasskey(from(home));
    expect(await endOf(signIn.startPasskey(from(home)))).toBe("too_many_attempts");
  });

  it("gives no separate count for an invented device cookie or that of another account", async () => {
    const { signIn, make, factors, world } = await stage();
    const other = await make("bob");
    expect(await factors.overview(other)).toMatchObject({ hasPassword: false });
    await signIn.setPassword({ account: other, ip: home }, { password, current: undefined }, undefined);
    const bob = await signIn.signIn({ email: "bob@example.com", password }, from(home));
    const devices = [bob.is === "signed_in" ? bob.device : "", `${"A".repeat(22)}.${"A".repeat(43)}`, "x"];
    const ends: unknown[] = [];
    for (let n = 0; n < 12; n++)
      ends.push(await endOf(signIn.signIn({ email, password: "x" }, from("192.0.2.7", { device: devices[n % 3] }))));
    expect(ends.filter((end) => end === "wrong_password")).toHaveLength(10);
    expect(await world.db.selectFrom("loginSession").selectAll().execute()).toHaveLength(1);
  });
});

describe("a session", () => {
  it("never begins under a cookie that came with the browser, and ends where its owner signs in again", async () => {
    const { enter, ask, addApp, byCode, sessions } = await stage();
    const planted = "A".repeat(43);
    const first = await enter(from(home, { cookie: planted }));
    expect(first.session.cookie).not.toBe(planted);
    const app = await addApp(first.session);
    const visitor = from(home, { cookie: first.session.cookie });
    const { ticket } = await ask(visitor);
    // The first step alone neither begins nor ends anything.
    expect(await sessions.find(first.session.cookie)).toBeDefined();
    const second = await byCode(ticket, app.code(), visitor);
    expect(second.session.cookie).not.toBe(first.session.cookie);
    expect(second.session.csrfToken).not.toBe(first.session.csrfToken);
    expect(await sessions.find(first.session.cookie)).toBeUndefined();
    expect(await sessions.find(second.session.cookie)).toMatchObject({ factors: ["password", "totp"] });
  });

  it("ends when the first second factor is added, and none starts by password alone after that", async () => {
    const { enter, addApp, sessions, actor, signIn } = await stage();
    const [mine, other] = [await enter(), await enter(from("192.0.2.50"))];
    const step = signIn.signIn({ email, password }, from("192.0.2.51"));
    await step;
    await addApp(mine.session);
    expect(await sessions.find(mine.session.cookie)).toMatchObject({ factors: ["password", "totp"] });
    expect(await sessions.find(other.session.cookie)).toBeUndefined();
    // Somebody who was asked for no second factor a moment ago.
    expect(await endOf(sessions.begin(actor, ["password"]))).toBe("sign_in_expired");
  });

  it("says when its owner signed in, and using it makes that no later", async () => {
    const { enter, sessions, clock } = await stage();
    const { session } = await enter();
    const beganAtMs = clock.ms;
    clock.ms += 3 * 3_600_000;
    expect(await sessions.find(session.cookie)).toMatchObject({ authTimeMs: beganAtMs });
    const again = await enter(from(home, { cookie: session.cookie }));
    expect(again.session.authTimeMs).toBe(clock.ms);
  });
});

describe("an account with a second factor", () => {
  it("has its password set by no API key, and by a session that names the present one", async () => {
    const { enter, addApp, signIn, actor } = await stage();
    const { session } = await enter();
    await addApp(session);
    const change = (current: string | undefined, by: Session | undefined) =>
      endOf(signIn.setPassword(actor, { password: "battery staple", current }, by));
    expect(await change(undefined, undefined)).toBe("session_required");
    expect(await change(undefined, session)).toBe("wrong_password");
    expect(await change(password, session)).toBe("done");
    const weak = signIn.setPassword(actor, { password: "password1234", current: "battery staple" }, session);
    expect(await endOf(weak)).toBe("weak_password");
  });

  it("loses its recovery codes with its last factor, and never another account's factor", async () => {
    const { enter, addApp, factors, actor, account, make, audit } = await stage();
    const { factor } = await addApp((await enter()).session);
    const bob = { account: await make("bob"), ip: home };
    expect(await endOf(factors.remove(bob, factor.id))).toBe("second_factor_not_found");
    expect(await endOf(factors.rename(bob, factor.id, "mine"))).toBe("second_factor_not_found");
    expect(await endOf(factors.renewRecoveryCodes(bob))).toBe("second_factor_conflict");
    await factors.remove(actor, factor.id);
    expect(await factors.overview(account)).toMatchObject({ factors: [], recoveryCodeCount: 0 });
    expect((await enter()).session.factors).toEqual(["password"]);
    expect(await audit("second_factor.add")).toHaveLength(1);
    expect(await audit("second_factor.remove")).toHaveLength(1);
  });

  it("keeps the new name of a renamed factor, whose change is audited", async () => {
    const { enter, addApp, factors, account, world } = await stage();
    const { factor } = await addApp((await enter()).session);
    const renamed = await factors.rename({ account, ip: home }, factor.id, "old telephone");
    const [listed] = (await factors.overview(account)).factors;
    expect(listed).toEqual(renamed);
    expect(listed).toMatchObject({ id: factor.id, kind: "totp", name: "old telephone" });
    const { rows } = await world.pool.query(
      "select account_id, ip, before, after from audit where action = 'second_factor.rename'",
    );
    const after = { id: factor.id, kind: "totp", name: "old telephone" };
    expect(rows).toEqual([{ account_id: account, ip: home, before: { name: "app" }, after }]);
  });

  it("is opened again by an operator, which ends its sessions and is audited", async () => {
    const { enter, addApp, factors, sessions, account, audit } = await stage();
    const { session } = await enter();
    await addApp(session);
    const act = { by: "u:1000000000000", ip: home, note: "lost telephone" };
    expect(await factors.reset(account, act)).toBe(1);
    expect(await sessions.find(session.cookie)).toBeUndefined();
    expect((await enter()).session.factors).toEqual(["password"]);
    expect(await audit("second_factor.reset")).toEqual([{ account_id: account, ip: home, after: { removed: 1 } }]);
  });
});

describe("the policy of the installation", () => {
  it("lets accounts without a second factor only set one up, at once and in every session", async () => {
    const { enter, addApp, factors, sessions, make, signIn, audit } = await stage();
    const operator = await make("root", true);
    await signIn.setPassword({ account: operator, ip: home }, { password, current: undefined }, undefined);
    const root = await signIn.signIn({ email: "root@example.com", password }, from(home));
    if (root.is !== "signed_in") throw new Error("root has no second factor");
    const { session } = await enter();
    const must = async (cookie: string) => (await sessions.find(cookie))?.mustEnrol;
    const act = { by: operator, ip: home, note: "" };
    expect([await must(session.cookie), await must(root.session.cookie)]).toEqual([false, false]);
    await factors.setPolicy("operators", act);
    expect([await must(session.cookie), await must(root.session.cookie)]).toEqual([false, true]);
    await factors.setPolicy("all", act);
    expect([await must(session.cookie), (await enter()).session.mustEnrol]).toEqual([true, true]);
    const app = await addApp(session);
    expect(await must(session.cookie)).toBe(false);
    await factors.remove({ account: session.caller.account, ip: home }, app.factor.id);
    expect(await must(session.cookie)).toBe(true);
    await factors.setPolicy("none", act);
    expect([await must(session.cookie), await must(root.session.cookie)]).toEqual([false, false]);
    expect((await audit("sign_in_policy.set")).map((row) => row.after.second_factor)).toEqual([
      "operators",
      "all",
      "none",
    ]);
  });
});
