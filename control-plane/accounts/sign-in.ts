// Sign-up, sign-in and passwords. An unknown e-mail address and a wrong password take the same path: one lookup, one hash. A
// sign-in with a second factor has two steps, joined by a ticket; there is no session before the second one. Signing in again
// also renews a session's proof of its owner.

import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import type { Actor } from "../act.ts";
import type { AccountMails } from "./account-mails.ts";
import type { CreateAccount } from "./create-account.ts";
import type { DataKeys } from "./data-keys.ts";
import type { EnforcedSso } from "./enforced-sso.ts";
import { openSecret } from "./envelope.ts";
import { accountGone, signUpClosed, TooManyAttempts, wrongPassword } from "./errors.ts";
import { type FactorForm, sessionRequired, signInExpired, WrongSecondFactor } from "./factor-errors.ts";
import type { CodeUse, FactorStore, SessionFactor } from "./factor-store.ts";
import { totpPurpose } from "./factors.ts";
import type { GuessLimits, Origin } from "./guess-limits.ts";
import type { KnownDevices } from "./known-device.ts";
import {
  credentialIdOf,
  type PasskeyOptions,
  type RelyingParty,
  signInOptions,
  siteOf,
  verifySignIn,
} from "./passkeys.ts";
import type { Passwords } from "./password.ts";
import { checkNewPassword } from "./password-rule.ts";
import type { RecoveryCodes } from "./recovery-codes.ts";
import type { BegunSession, Session, Sessions } from "./sessions.ts";
import type { SessionStore } from "./store.ts";
import type { FoundTicket, Ticket, Tickets } from "./tickets.ts";
import { totpForm, totpStep } from "./totp.ts";

/** Time in which a sign-in link must be used. */
const linkMs = 15 * 60_000;

export interface Credentials {
  readonly email: string;
  readonly password: string;
}

/** The person who signs in, and their address. */
export interface Visitor {
  readonly ip: string;
  /** Cookie of the session that the new one replaces. */
  readonly cookie: string | undefined;
  /** The cookie of a known device. */
  readonly device: string | undefined;
  /** The browser's own name, for the list of sessions. */
  readonly userAgent?: string | undefined;
  /** Undefined: this installation has no address for passkeys. */
  readonly site: RelyingParty | undefined;
}

export interface SignedIn {
  readonly session: BegunSession;
  /** Value of the cookie that identifies this device. */
  readonly device: string;
}

export type SecondFactorMethod = "totp" | "passkey" | "recovery_code";

export interface PasskeyStep extends Ticket {
  readonly options: PasskeyOptions;
}

/** `passkey`: challenge for the account's passkeys; null when it has none. */
export type SignInStep =
  | ({ readonly is: "signed_in" } & SignedIn)
  | ({
      readonly is: "second_factor";
      readonly methods: readonly SecondFactorMethod[];
      readonly passkey: PasskeyOptions | null;
    } & Ticket);

export interface SecondStep {
  readonly ticket: string;
  /** Six digits of the app, or a recovery code. */
  readonly code: string | undefined;
  /** Result of `navigator.credentials.get`, in WebAuthn's JSON form. */
  readonly passkey: unknown;
}

export interface NewPassword {
  readonly password: string;
  readonly current: string | undefined;
}

export interface NewCustomer extends SignedIn {
  readonly account: AccountId;
  /** Shown once. */
  readonly apiKey: string;
}

export interface SignInDeps {
  readonly store: Pick<SessionStore, "credentials" | "passwordOf" | "setPassword" | "nameOf" | "isAdmin">;
  readonly factors: Pick<
    FactorStore,
    "overview" | "totpOf" | "passkeysOf" | "passkey" | "useTotp" | "usePasskey" | "useRecoveryCode" | "noteSignIn"
  >;
  readonly tickets: Tickets;
  readonly dataKeys: DataKeys;
  readonly recoveryCodes: RecoveryCodes;
  readonly devices: KnownDevices;
  readonly limits: GuessLimits;
  readonly accounts: Pick<CreateAccount, "createAccount">;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  readonly mails: Pick<AccountMails, "offerVerification" | "passwordNotice">;
  readonly sso: EnforcedSso;
  /** True when anyone may create an account. */
  readonly isSignUpOpen: boolean;
  readonly unixMs: () => number;
}

interface Proof {
  /** Attempts counted against the address. */
  readonly steps: number;
  /** Epoch in which the first step was accepted; null: it needed no password. */
  readonly epoch: number | null;
  /** Unix ms of the proof; 0: unknown. Default: now. */
  readonly authTimeMs?: number;
}

/** Proofs of a person, and the sessions that they open. */
function createProofs(deps: SignInDeps) {
  const { store, factors, tickets, limits, sessions, devices, unixMs } = deps;

  /** Audits the first refusal of each window when the account exists. */
  async function limited(account: AccountId | undefined, ip: string, what: string, work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      if (account !== undefined && error instanceof TooManyAttempts && error.params.isFirst)
        await factors.noteSignIn({ account, ip }, "sign_in.limited", what);
      throw error;
    }
  }

  async function begin(
    account: AccountId,
    proven: readonly SessionFactor[],
    from: Origin,
    { ip, cookie, userAgent }: Visitor,
    { steps, epoch, authTimeMs }: Proof,
  ): Promise<SignedIn> {
    const owner = await store.nameOf(account);
    if (!owner) throw signInExpired();
    // Before the old session ends, so that a refusal leaves it unchanged.
    const session = await sessions.begin({ account, ip }, proven, { userAgent, epoch: epoch ?? undefined, authTimeMs });
    await limits.forgive(account, owner.canonical, from, steps);
    if (cookie !== undefined) await sessions.end(cookie);
    return { session, device: devices.make(account) };
  }

  /** Uses the code and the sign-in's challenge together, so that of two concurrent codes only one is used. */
  async function useCode(
    form: "totp" | "recovery_code",
    account: AccountId,
    ip: string,
    code: string,
    challenge: Buffer,
  ): Promise<CodeUse> {
    if (form === "totp") {
      const totp = await factors.totpOf(account);
      const dek = await deps.dataKeys.of(account);
      if (!totp || !dek) return "refused";
      const step = totpStep(openSecret(dek, totp.sealed, account, totpPurpose), code, unixMs());
      // Each step is accepted once, so that an observed code is useless.
      return step === undefined ? "refused" : factors.useTotp(totp.id, step, challenge, unixMs());
    }
    const hash = deps.recoveryCodes.hashOf(account, code);
    return hash === undefined ? "refused" : factors.useRecoveryCode({ account, ip }, hash, challenge, unixMs());
  }

  async function finishByCode(step: FoundTicket, code: string, visitor: Visitor): Promise<SignedIn> {
    const { account } = step;
    if (account === null) throw signInExpired();
    const from = originOf(account, visitor);
    await limited(account, visitor.ip, "code", limits.code(account, from));
    const form = totpForm.test(code) ? "totp" : "recovery_code";
    const use = await useCode(form, account, visitor.ip, code, step.lookup);
    if (use === "expired") throw signInExpired();
    if (use === "refused") return refuse(account, visitor.ip, form);
    return begin(account, [firstFactorOf(step), form], from, visitor, secondStepOf(step));
  }

  async function finishByPasskey(step: FoundTicket, response: unknown, visitor: Visitor): Promise<SignedIn> {
    const id = credentialIdOf(response);
    const passkey = id && (await factors.passkey(id));
    const account = step.account ?? passkey?.account;
    // A challenge is used once, whatever the outcome.
    if (account === undefined || step.challenge === null) {
      await tickets.take(step);
      throw new WrongSecondFactor();
    }
    const from = originOf(account, visitor);
    await limited(account, visitor.ip, "passkey", limits.passkey(account, from));
    await tickets.take(step);
    if (!passkey || passkey.account !== account) return refuse(account, visitor.ip, "passkey");
    const isOnlyFactor = step.purpose === "passkey";
    try {
      const newCount = await verifySignIn(siteOf(visitor.site), step.challenge, passkey, response, isOnlyFactor);
      if (!(await factors.usePasskey(passkey.id, passkey.signCount, newCount, unixMs()))) throw new WrongSecondFactor();
      if (isOnlyFactor) await checkSso(account);
    } catch (error) {
      if (error instanceof WrongSecondFactor) return refuse(account, visitor.ip, "passkey");
      throw error;
    }
    if (isOnlyFactor) return begin(account, ["passkey"], from, visitor, { steps: 1, epoch: step.epoch });
    return begin(account, [firstFactorOf(step), "passkey"], from, visitor, secondStepOf(step));
  }

  /**
   * After the proof, so that only the owner learns of the account. A passkey or a link stays the way in for an operator whose provider is
   * out of order.
   */
  async function checkSso(account: AccountId): Promise<void> {
    const owner = await store.nameOf(account);
    if (owner && !(await store.isAdmin(account))) await deps.sso.check(owner.email);
  }

  /** Always throws. */
  async function refuse(account: AccountId, ip: string, what: FactorForm): Promise<never> {
    await factors.noteSignIn({ account, ip }, "second_factor.refused", what);
    throw new WrongSecondFactor(what);
  }

  const originOf = (account: AccountId | undefined, { ip, device }: Visitor): Origin => ({
    ip,
    device: account && devices.find(account, device),
  });

  return { limited, begin, originOf, checkSso, finishByCode, finishByPasskey };
}

/** A provider's ticket has no epoch of a password. */
const firstFactorOf = ({ epoch }: FoundTicket): SessionFactor => (epoch === null ? "oidc" : "password");
/** A sign-in through a provider was counted twice before its second factor. */
const secondStepOf = ({ epoch }: FoundTicket) => ({ steps: epoch === null ? 3 : 2, epoch });

export function createSignIn(deps: SignInDeps) {
  const { store, factors, tickets, limits, passwords, sessions, devices } = deps;
  const { limited, begin, originOf, checkSso, finishByCode, finishByPasskey } = createProofs(deps);

  /** Undefined for an account without second factors. `epoch` null: a provider proved the person. */
  async function secondStep(
    account: AccountId,
    epoch: number | null,
    { site }: Visitor,
  ): Promise<SignInStep | undefined> {
    const kinds = new Set((await factors.overview(account))?.factors.map(({ kind }) => kind));
    if (kinds.size === 0) return undefined;
    const passkeys = kinds.has("passkey") ? await factors.passkeysOf(account) : [];
    const passkey = site && passkeys.length > 0 ? await signInOptions(site, passkeys) : null;
    const issued = await tickets.issue("second_factor", { account, challenge: passkey?.challenge ?? null, epoch });
    return { is: "second_factor", ...issued, methods: [...kinds, "recovery_code"], passkey };
  }

  return {
    /** The first step, by password. Throws wrongPassword, TooManyAttempts, signInBusy. */
    async signIn({ email, password }: Credentials, visitor: Visitor): Promise<SignInStep> {
      // Counted before the password is verified, so that concurrent attempts cannot exceed the limit.
      await limits.address(visitor.ip);
      await deps.sso.check(email);
      const { canonical, found } = await store.credentials(email);
      const from = originOf(found?.account, visitor);
      await limited(found?.account, visitor.ip, "password", limits.password(canonical, from));
      const isRight = await passwords.verify(password, found?.hash);
      if (!found || !isRight) throw wrongPassword();
      const { account, epoch } = found;
      const second = await secondStep(account, epoch, visitor);
      return second ?? { is: "signed_in", ...(await begin(account, ["password"], from, visitor, { steps: 1, epoch })) };
    },

    /** The first step, by passkey only. Throws factorConflict, TooManyAttempts. */
    async startPasskey({ ip, site }: Visitor): Promise<PasskeyStep> {
      await limits.passkeyStart(ip);
      const options = await signInOptions(siteOf(site), undefined);
      return { ...(await tickets.issue("passkey", { challenge: options.challenge })), options };
    },

    /** The second step of both. Throws signInExpired, WrongSecondFactor, TooManyAttempts. */
    async finish({ ticket, code, passkey }: SecondStep, visitor: Visitor): Promise<SignedIn> {
      await limits.address(visitor.ip);
      const step = await tickets.find(ticket, ["second_factor", "passkey"]);
      return code === undefined
        ? finishByPasskey(step, passkey, visitor)
        : finishByCode(step, code.replace(/\s/g, ""), visitor);
    },

    /**
     * Creates a link that signs in once without a password. The holder of an API key may set the password instead, so this grants
     * nothing more. Throws sessionRequired when the account has a second factor, accountGone.
     */
    async createLink({ account, ip }: Actor): Promise<Ticket> {
      const [owner, names] = [await factors.overview(account), await store.nameOf(account)];
      if (!owner || !names) throw accountGone();
      await checkSso(account);
      if (owner.factors.length > 0) throw sessionRequired();
      const issued = await tickets.issue("link", { account, epoch: names.epoch }, linkMs);
      await factors.noteSignIn({ account, ip }, "sign_in_link.create", `${linkMs / 60_000} minutes`);
      return issued;
    },

    /**
     * Signs in a person whom an identity provider proved at `authTimeMs`; 0: it does not report when. `asksFactor`: the account's own
     * second factor counts too, and is the newer proof. Throws signInExpired.
     */
    async enterByProvider(
      account: AccountId,
      visitor: Visitor,
      { authTimeMs, asksFactor }: { readonly authTimeMs: number; readonly asksFactor: boolean },
    ): Promise<SignInStep> {
      const second = asksFactor ? await secondStep(account, null, visitor) : undefined;
      if (second) return second;
      const proven = { steps: 2, epoch: null, authTimeMs };
      return { is: "signed_in", ...(await begin(account, ["oidc"], originOf(account, visitor), visitor, proven)) };
    },

    /** Signs in by a link. Throws signInExpired, TooManyAttempts. */
    async useLink(ticket: string, visitor: Visitor): Promise<SignedIn & { readonly hasPassword: boolean }> {
      await limits.address(visitor.ip);
      const link = await tickets.find(ticket, ["link"]);
      await tickets.take(link);
      const { account } = link;
      if (account === null) throw signInExpired();
      await checkSso(account);
      const proven = { steps: 1, epoch: link.epoch };
      const signedIn = await begin(account, ["link"], originOf(account, visitor), visitor, proven);
      return { ...signedIn, hasPassword: (await store.passwordOf(account)) !== undefined };
    },

    /** Throws signUpClosed, TooManyAttempts, signInBusy, weakPassword, accountNameTaken, badDisplayName. */
    async signUp(
      { email, password, displayName }: Credentials & { readonly displayName: string },
      { ip, userAgent }: Pick<Visitor, "ip" | "userAgent">,
    ): Promise<NewCustomer> {
      if (!deps.isSignUpOpen) throw signUpClosed();
      await limits.address(ip);
      await deps.sso.check(email);
      await checkNewPassword(password, [email, displayName]);
      const passwordHash = await passwords.hash(password);
      const request = {
        email,
        displayName,
        creditNanoUsd: nano(0n),
        isAdmin: false,
        ownPassword: { hash: passwordHash, ip },
      };
      const { account, apiKey } = await deps.accounts.createAccount(request);
      await deps.mails.offerVerification(account);
      const session = await sessions.begin({ account, ip }, ["password"], { userAgent });
      return { account, apiKey, session, device: devices.make(account) };
    },

    /**
     * Sets the account's password and ends its other sessions. A session must send the current password, unless it signed in by
     * passkey. An API key need not, but cannot set one when the account has a second factor. Throws wrongPassword, weakPassword,
     * sessionRequired, accountGone.
     */
    async setPassword(actor: Actor, { password, current }: NewPassword, session: Session | undefined): Promise<void> {
      // Before anything is compared, so that a password that was set meanwhile is not replaced.
      const names = await store.nameOf(actor.account);
      const owner = await factors.overview(actor.account);
      if (!owner || !names) throw accountGone();
      await deps.sso.check(names.email);
      if (!session) {
        if (owner.factors.length > 0) throw sessionRequired();
      } else if (!session.factors.includes("passkey")) {
        await limited(actor.account, actor.ip, "present password", limits.presentPassword(actor.account));
        const hash = await store.passwordOf(actor.account);
        if (hash !== undefined && !(await passwords.verify(current ?? "", hash)))
          throw wrongPassword("The current password is wrong. Send it as current_password.");
        await limits.forgivePresentPassword(actor.account);
      }
      await checkNewPassword(password, [owner.email, owner.displayName]);
      const hash = await passwords.hash(password);
      const { epoch } = names;
      const change = { hash, keep: session?.lookup, notice: deps.mails.passwordNotice(actor), epoch };
      const outcome = await store.setPassword(actor, change);
      if (outcome === "gone") throw accountGone();
      if (outcome === "expired") throw signInExpired();
    },
  };
}

export type SignIn = ReturnType<typeof createSignIn>;
