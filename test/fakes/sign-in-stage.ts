// An account on a real PostgreSQL that signs in from control planes with the clock of the test. Passwords are compared without
// argon2: what a hash costs is proven in test/integration/accounts/sign-in.test.ts.
import { Secret, TOTP } from "otpauth";
import type { Session } from "../../control-plane/accounts/sessions.ts";
import type { SignInStep, Visitor } from "../../control-plane/accounts/sign-in.ts";
import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import { openWorld } from "../integration/billing/world.ts";
import { Authenticator } from "./authenticator.ts";
import type { TestDatabases } from "./postgres.ts";
import { from, signInParts, site } from "./sign-in-parts.ts";

export const email = "ada@example.com";
export const password = "correct horse";
export const home = "192.0.2.1";

export async function signInStage(postgres: TestDatabases) {
  const world = await openWorld(postgres);
  const make = async (name: string, isAdmin = false) =>
    (
      await world.accounts.createAccount({
        email: `${name}@example.com`,
        displayName: name,
        creditNanoUsd: nano(0n),
        isAdmin,
      })
    ).account;
  const account = await make("ada");
  const clock = { ms: Date.UTC(2026, 0, 1) };
  const hashes: (string | undefined)[] = [];
  const hashed: string[] = [];
  const passwords = {
    async hash(given: string) {
      hashed.push(given);
      return `hash of ${given}`;
    },
    async verify(given: string, hash: string | undefined) {
      hashes.push(hash);
      return hash === `hash of ${given}`;
    },
  };
  const replica = () => signInParts(world, { unixMs: () => clock.ms, passwords });
  const parts = replica();
  const actor = { account, ip: home };
  await parts.signIn.setPassword(actor, { password, current: undefined }, undefined);

  const enter = async (visitor: Visitor = from(home)) => {
    const step = await parts.signIn.signIn({ email, password }, visitor);
    if (step.is !== "signed_in") throw new Error("a second factor is asked for");
    return step;
  };
  const ask = async (visitor: Visitor = from(home)) => asked(await parts.signIn.signIn({ email, password }, visitor));
  /** An authenticator app; the clock goes on, so that the step of its proof is not the present one. */
  async function addApp(session: Session, of: AccountId = account) {
    const { ticket, totp } = await parts.factors.start({ account: of, ip: home }, "totp", session, site);
    const app = new TOTP({ secret: Secret.fromBase32(totp?.secret ?? "") });
    const codeAt = (ms: number) => app.generate({ timestamp: ms });
    const proof = { ticket, name: "app", code: codeAt(clock.ms), passkey: undefined };
    const added = await parts.factors.finish({ account: of, ip: home }, proof, session, site);
    clock.ms += 60_000;
    return { ...added, code: () => codeAt(clock.ms), codeAt, secret: totp?.secret ?? "" };
  }
  async function addPasskey(session: Session, authenticator = new Authenticator()) {
    const { ticket, passkey } = await parts.factors.start(actor, "passkey", session, site);
    const answer = authenticator.create(site, passkey?.challenge ?? "");
    const added = await parts.factors.finish(
      actor,
      { ticket, name: "key", code: undefined, passkey: answer },
      session,
      site,
    );
    return { ...added, authenticator };
  }
  const byCode = (ticket: string, code: string, visitor: Visitor = from(home)) =>
    parts.signIn.finish({ ticket, code, passkey: undefined }, visitor);
  const byPasskey = (ticket: string, passkey: unknown, visitor: Visitor = from(home)) =>
    parts.signIn.finish({ ticket, code: undefined, passkey }, visitor);
  const audit = async (action: string) =>
    (await world.pool.query("select account_id, ip, after from audit where action = $1 order by audit_id", [action]))
      .rows;
  const tools = { enter, ask, addApp, addPasskey, byCode, byPasskey, audit, make };
  return { world, account, actor, clock, hashes, hashed, replica, ...parts, ...tools };
}

export function asked(step: SignInStep) {
  if (step.is !== "second_factor") throw new Error("no second factor is asked for");
  return step;
}

export const endOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error) => error.code,
  );
