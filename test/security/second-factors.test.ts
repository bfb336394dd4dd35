// Attacks on second factors: replay of codes, reuse of recovery codes and challenges, forged and copied passkeys.
import { Secret, TOTP } from "otpauth";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { maxFactors } from "../../control-plane/accounts/factors.ts";
import { ticketMs } from "../../control-plane/accounts/tickets.ts";
import { Authenticator } from "../fakes/authenticator.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";
import { from, site } from "../fakes/sign-in-parts.ts";
import { endOf, home, password, signInStage } from "../fakes/sign-in-stage.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());
const stage = () => signInStage(postgres);

const proofOf = (ticket: string, code: string) => ({ ticket, code, passkey: undefined });

describe("an authenticator app", () => {
  it("uses only the code that finishes the sign-in when two come at once", async () => {
    const { enter, ask, addApp, replica, clock, world } = await stage();
    const app = await addApp((await enter()).session);
    const replicas = [replica(), replica()];
    for (let round = 0; round < 20; round++) {
      clock.ms += 900_000;
      const steps = [clock.ms - 30_000, clock.ms];
      const { ticket } = await ask();
      const ends = await Promise.all(
        steps.map((ms, n) =>
          endOf((replicas[n] ?? replica()).signIn.finish(proofOf(ticket, app.codeAt(ms)), from(home))),
        ),
      );
      const { rows } = await world.pool.query("select counter from second_factor");
      const winner = steps[ends.indexOf("done")] ?? 0;
      expect(rows, `round ${round}`).toEqual([{ counter: BigInt(Math.floor(winner / 30_000)) }]);
    }
  });

  it("gives codes that count once, at whichever control plane, also side by side", async () => {
    const { enter, ask, addApp, byCode, replica, clock } = await stage();
    const app = await addApp((await enter()).session);
    const tickets = [await ask(), await ask(), await ask()];
    const code = app.code();
    const ends = await Promise.all(
      tickets.map(({ ticket }) => endOf(replica().signIn.finish({ ticket, code, passkey: undefined }, from(home)))),
    );
    expect(ends.filter((end) => end === "done")).toHaveLength(1);
    expect(ends.filter((end) => end === "wrong_second_factor")).toHaveLength(2);
    // Nor does an older code that was never used, once a later one was.
    const { ticket } = await ask();
    expect(await endOf(byCode(ticket, app.codeAt(clock.ms - 30_000)))).toBe("wrong_second_factor");
    clock.ms += 30_000;
    expect(await endOf(byCode(ticket, app.code()))).toBe("done");
  });

  it("is not active before a code proved it, and its proof is no sign-in", async () => {
    const { enter, factors, actor, clock, byCode, ask } = await stage();
    const { session } = await enter();
    const { ticket, totp } = await factors.start(actor, "totp", session, site);
    expect((await enter()).session.factors).toEqual(["password"]);
    const { session: again } = await enter();
    const code = new TOTP({ secret: Secret.fromBase32(totp?.secret ?? "") }).generate({ timestamp: clock.ms });
    const proof = { ticket, name: "app", code, passkey: undefined };
    // A ticket belongs to the session that asked for it.
    expect(await endOf(factors.finish(actor, proof, again, site))).toBe("sign_in_expired");
    expect(await endOf(byCode(ticket, code))).toBe("sign_in_expired");
    await factors.finish(actor, proof, session, site);
    // The code that proved it has been used.
    expect(await endOf(byCode((await ask()).ticket, code))).toBe("wrong_second_factor");
  });

  it("is in the database as a sealed secret, and so are recovery codes as hashes", async () => {
    const { enter, addApp, world } = await stage();
    const app = await addApp((await enter()).session);
    const { rows } = await world.pool.query(
      `select f::text as row from second_factor f union all select r::text from recovery_code r
       union all select a::text from audit a union all select c::text from sign_in_challenge c`,
    );
    const dump = rows.map(({ row }) => row).join("\n");
    const codes = app.recoveryCodes ?? [];
    expect(codes).toHaveLength(10);
    for (const secret of [app.secret, ...codes, ...codes.map((code) => code.replaceAll("-", ""))])
      for (const form of [secret, Buffer.from(secret).toString("hex")]) expect(dump).not.toContain(form);
  });
});

describe("a recovery code", () => {
  it("signs in once, is recorded in the audit log, and expires when new codes are created", async () => {
    const { enter, ask, addApp, byCode, factors, actor, account, audit, replica } = await stage();
    const [first = "", second = "", third = ""] = (await addApp((await enter()).session)).recoveryCodes ?? [];
    const tickets = [await ask(), await ask()];
    const ends = await Promise.all(
      tickets.map(({ ticket }) =>
        endOf(replica().signIn.finish({ ticket, code: first.toUpperCase(), passkey: undefined }, from(home))),
      ),
    );
    expect(ends.toSorted()).toEqual(["done", "wrong_second_factor"].toSorted());
    expect(await endOf(byCode((await ask()).ticket, first))).toBe("wrong_second_factor");
    const done = await byCode((await ask()).ticket, second);
    expect(done.session.factors).toEqual(["password", "recovery_code"]);
    expect((await factors.overview(account)).recoveryCodeCount).toBe(8);
    expect(await audit("recovery_code.use")).toHaveLength(2);
    const fresh = await factors.renewRecoveryCodes(actor);
    expect(await endOf(byCode((await ask()).ticket, third))).toBe("wrong_second_factor");
    expect(await endOf(byCode((await ask()).ticket, fresh[0] ?? ""))).toBe("done");
  });

  it("stays usable when another code finishes the same sign-in at the same time", async () => {
    const { enter, ask, addApp, factors, actor, account, replica, clock } = await stage();
    await addApp((await enter()).session);
    const replicas = [replica(), replica()];
    let codes: string[] = [];
    for (let round = 0; round < 60; round++) {
      if (codes.length === 0) codes = [...(await factors.renewRecoveryCodes(actor))];
      const pair = codes.splice(0, 2);
      clock.ms += 900_000;
      const { ticket } = await ask();
      const ends = await Promise.all(
        pair.map((code, n) => endOf((replicas[n] ?? replica()).signIn.finish(proofOf(ticket, code), from(home)))),
      );
      expect(ends.toSorted(), `round ${round}`).toEqual(["done", "sign_in_expired"].toSorted());
      const unused = pair[ends.indexOf("sign_in_expired")] ?? "";
      const next = await ask();
      expect(await endOf(replica().signIn.finish(proofOf(next.ticket, unused), from(home))), `round ${round}`).toBe(
        "done",
      );
    }
    expect((await factors.overview(account)).recoveryCodeCount).toBe(codes.length);
  });

  it("is refused without using up the sign-in, which the right code still finishes", async () => {
    const { enter, ask, addApp, byCode } = await stage();
    const [code = ""] = (await addApp((await enter()).session)).recoveryCodes ?? [];
    const { ticket } = await ask();
    expect(await endOf(byCode(ticket, "0".repeat(16)))).toBe("wrong_second_factor");
    expect(await endOf(byCode(ticket, code))).toBe("done");
    expect(await endOf(byCode(ticket, code))).toBe("sign_in_expired");
  });

  it("does not work for another account", async () => {
    const { enter, ask, addApp, byCode, make, signIn, account } = await stage();
    await addApp((await enter()).session);
    const other = await make("bob");
    await signIn.setPassword({ account: other, ip: home }, { password, current: undefined }, undefined);
    const bob = await signIn.signIn({ email: "bob@example.com", password }, from(home));
    if (bob.is !== "signed_in") throw new Error("bob has no second factor");
    const { recoveryCodes } = await addApp(bob.session, other);
    expect(await endOf(byCode((await ask()).ticket, recoveryCodes?.[0] ?? ""))).toBe("wrong_second_factor");
    expect(account).not.toBe(other);
  });
});

describe("a passkey", () => {
  it("signs in alone where it verified its user, and beside the password where it did not", async () => {
    const { enter, ask, addPasskey, byPasskey, signIn } = await stage();
    const { authenticator, recoveryCodes } = await addPasskey((await enter()).session);
    expect(recoveryCodes).toHaveLength(10);
    const alone = await signIn.startPasskey(from(home));
    const done = await byPasskey(alone.ticket, authenticator.get(site, alone.options.challenge));
    expect(done.session.factors).toEqual(["passkey"]);
    authenticator.isUserVerified = false;
    const refused = await signIn.startPasskey(from(home));
    const unverified = authenticator.get(site, refused.options.challenge);
    expect(await endOf(byPasskey(refused.ticket, unverified))).toBe("wrong_second_factor");
    const { ticket, passkey } = await ask();
    const second = await byPasskey(ticket, authenticator.get(site, passkey?.challenge ?? ""));
    expect(second.session.factors).toEqual(["password", "passkey"]);
  });

  it("signs each challenge once, whatever came of it, and none that has expired or is another's", async () => {
    const { enter, ask, addPasskey, byPasskey, signIn, clock } = await stage();
    const { authenticator } = await addPasskey((await enter()).session);
    const start = () => signIn.startPasskey(from(home));
    const first = await start();
    const answer = authenticator.get(site, first.options.challenge);
    const together = await Promise.all([1, 2, 3].map(() => endOf(byPasskey(first.ticket, answer))));
    expect(together.filter((end) => end === "done")).toHaveLength(1);
    expect(together.filter((end) => end === "sign_in_expired")).toHaveLength(2);

    // A refused answer has used its challenge up.
    const spoilt = await start();
    const right = authenticator.get(site, spoilt.options.challenge);
    const wrong = { ...right, response: { ...right.response, signature: answer.response["signature"] } };
    expect(await endOf(byPasskey(spoilt.ticket, wrong))).toBe("wrong_second_factor");
    expect(await endOf(byPasskey(spoilt.ticket, right))).toBe("sign_in_expired");

    const [one, two] = [await start(), await start()];
    expect(await endOf(byPasskey(one.ticket, authenticator.get(site, two.options.challenge)))).toBe(
      "wrong_second_factor",
    );
    const late = await start();
    clock.ms += ticketMs;
    expect(await endOf(byPasskey(late.ticket, authenticator.get(site, late.options.challenge)))).toBe(
      "sign_in_expired",
    );
    // The first step of a password sign-in is not one of a passkey alone, nor the other way round.
    const { ticket } = await ask();
    expect(await endOf(byPasskey(ticket, authenticator.get(site, two.options.challenge)))).toBe("wrong_second_factor");
    expect(await endOf(byPasskey("A".repeat(43), answer))).toBe("sign_in_expired");
  });

  it("is refused from another site, with a counter that went back, and with a broken response", async () => {
    const { enter, addPasskey, byPasskey, signIn } = await stage();
    const { authenticator } = await addPasskey((await enter()).session);
    const attempt = async (answer: (challenge: string) => unknown) => {
      const { ticket, options } = await signIn.startPasskey(from(home));
      return endOf(byPasskey(ticket, answer(options.challenge)));
    };
    const evil = { id: "stoker.example.com.evil.example", origin: "https://stoker.example.com.evil.example" };
    expect(await attempt((challenge) => authenticator.get(evil, challenge))).toBe("wrong_second_factor");
    const sameId = { ...site, origin: "https://evil.stoker.example.com" };
    expect(await attempt((challenge) => authenticator.get(sameId, challenge))).toBe("wrong_second_factor");
    expect(await attempt((challenge) => authenticator.get(site, challenge))).toBe("done");
    authenticator.counter -= 1;
    expect(await attempt((challenge) => authenticator.get(site, challenge))).toBe("wrong_second_factor");
    authenticator.counter += 5;
    expect(await attempt((challenge) => authenticator.get(site, challenge))).toBe("done");
    const broken = [undefined, {}, { id: 7 }, { id: "x".repeat(5000) }, { id: authenticator.id.toString("base64url") }];
    for (const answer of broken) expect(await attempt(() => answer)).toBe("wrong_second_factor");
  });

  it("is set up once, by a challenge of its own session, for a site that has a name", async () => {
    const { enter, addPasskey, factors, actor, signIn } = await stage();
    const { session } = await enter();
    const { authenticator } = await addPasskey(session);
    expect(await endOf(addPasskey(session, authenticator))).toBe("second_factor_conflict");
    const nowhere = from(home, { site: undefined });
    expect(await endOf(factors.start(actor, "passkey", session, undefined))).toBe("second_factor_conflict");
    expect(await endOf(signIn.startPasskey(nowhere))).toBe("second_factor_conflict");
    const { ticket, passkey } = await factors.start(actor, "passkey", session, site);
    const forged = new Authenticator().create({ ...site, origin: "https://evil.example" }, passkey?.challenge ?? "");
    const proof = { ticket, name: "key", code: undefined, passkey: forged };
    expect(await endOf(factors.finish(actor, proof, session, site))).toBe("wrong_second_factor");
    expect(await endOf(factors.finish(actor, proof, session, site))).toBe("sign_in_expired");
    for (let n = 1; n < maxFactors; n++) await addPasskey(session);
    expect(await endOf(addPasskey(session))).toBe("second_factor_conflict");
  });
});
