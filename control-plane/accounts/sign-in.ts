// Sign-up, sign-in and passwords. An unknown e-mail address and a wrong password take the same way: one look-up, one hash.
import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import { type AttemptsLimit, countAttempts, networkOf } from "./attempts.ts";
import type { CreateAccount } from "./create-account.ts";
import { AccountGone, SignUpClosed, WrongPassword } from "./errors.ts";
import type { Passwords } from "./password.ts";
import type { BegunSession, Session, Sessions } from "./sessions.ts";
import type { Actor, AttemptStore, SessionStore } from "./store.ts";

export interface SignIn {
  /** Throws WrongPassword, TooManyAttempts, SignInBusy. `cookie`: of the session that ends with this one's beginning. */
  signIn(wish: Credentials, ip: string, cookie: string | undefined): Promise<BegunSession>;
  /** Throws SignUpClosed, TooManyAttempts, SignInBusy, AccountNameTaken, BadDisplayName. */
  signUp(wish: Credentials & { readonly displayName: string }, ip: string): Promise<NewCustomer>;
  /**
   * Sets the account's password and ends its sessions, all but `session`. Somebody who is signed in must know the present
   * one; an API key, which may do anything to its account, sets the first one or a new one. Throws WrongPassword, AccountGone.
   */
  setPassword(actor: Actor, wish: NewPassword, session: Session | undefined): Promise<void>;
}

export interface Credentials {
  readonly email: string;
  readonly password: string;
}

export interface NewPassword {
  readonly password: string;
  readonly current: string | undefined;
}

export interface NewCustomer {
  readonly account: AccountId;
  /** Shown once. */
  readonly apiKey: string;
  readonly session: BegunSession;
}

export const attemptLimits: Readonly<Record<"perAddress" | "perAccount" | "perEmail", AttemptsLimit>> = {
  perAddress: { most: 30, windowMs: 900_000, isFinal: true },
  /** Of one account from one network: a stranger elsewhere who knows an address cannot keep its owner signed out. */
  perAccount: { most: 10, windowMs: 900_000 },
  /** From all networks together: guessing from many stays hopeless. */
  perEmail: { most: 200, windowMs: 900_000 },
};

export interface SignInDeps {
  readonly store: Pick<SessionStore, "credentials" | "passwordOf" | "setPassword">;
  /** Counted over all control planes. */
  readonly attempts: AttemptStore;
  readonly accounts: Pick<CreateAccount, "createAccount">;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  /** Whether anybody may make an account. */
  readonly isSignUpOpen: boolean;
  readonly unixMs: () => number;
}

export function createSignIn(deps: SignInDeps): SignIn {
  const { store, passwords, sessions } = deps;
  const counting = { store: deps.attempts, unixMs: deps.unixMs };
  const byAddress = countAttempts("address", attemptLimits.perAddress, counting);
  const byAccount = countAttempts("account", attemptLimits.perAccount, counting);
  const byEmail = countAttempts("email", attemptLimits.perEmail, counting);

  return {
    async signIn({ email, password }, ip, cookie) {
      // All are counted before the password is looked at, so that attempts side by side cannot pass the limit.
      const network = networkOf(ip);
      const name = email.toLowerCase();
      const nameThere = `email ${name} from ${network}`;
      await byAddress.take(network);
      // One network's attempts beyond its own limit do not count against the person's.
      await byAccount.take(nameThere);
      await byEmail.take(name);
      const found = await store.credentials(email);
      const isRight = await passwords.verify(password, found?.hash);
      if (!found || !isRight) throw new WrongPassword();
      await byAccount.forgive(nameThere);
      await byEmail.forgive(name);
      if (cookie !== undefined) await sessions.end(cookie);
      return sessions.begin({ account: found.account, ip });
    },

    async signUp({ email, password, displayName }, ip) {
      if (!deps.isSignUpOpen) throw new SignUpClosed();
      await byAddress.take(networkOf(ip));
      const passwordHash = await passwords.hash(password);
      const wish = {
        email,
        displayName,
        creditNanoUsd: nano(0n),
        isAdmin: false,
        ownPassword: { hash: passwordHash, ip },
      };
      const { account, apiKey } = await deps.accounts.createAccount(wish);
      return { account, apiKey, session: await sessions.begin({ account, ip }) };
    },

    async setPassword(actor, { password, current }, session) {
      if (session) {
        const name = `account ${actor.account}`;
        await byAccount.take(name);
        const hash = await store.passwordOf(actor.account);
        if (hash !== undefined && !(await passwords.verify(current ?? "", hash)))
          throw new WrongPassword("The present password is wrong. Send it as current_password.");
        await byAccount.forgive(name);
      }
      const hash = await passwords.hash(password);
      if (!(await store.setPassword(actor, hash, session?.lookup))) throw new AccountGone();
    },
  };
}
