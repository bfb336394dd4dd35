// Sign-in and second factors over a real database, with the clock of a test.

import { type AccountMailSettings, createAccountMails } from "../../control-plane/accounts/account-mails.ts";
import { createDataKeys } from "../../control-plane/accounts/data-keys.ts";
import type { EnforcedSso } from "../../control-plane/accounts/enforced-sso.ts";
import { createFactors } from "../../control-plane/accounts/factors.ts";
import { createGuessLimits } from "../../control-plane/accounts/guess-limits.ts";
import { createKnownDevices } from "../../control-plane/accounts/known-device.ts";
import { createPasswords, type Passwords } from "../../control-plane/accounts/password.ts";
import { createProfiles } from "../../control-plane/accounts/profile.ts";
import { createRecoveryCodes } from "../../control-plane/accounts/recovery-codes.ts";
import { createSessions } from "../../control-plane/accounts/sessions.ts";
import { createSignIn, type Visitor } from "../../control-plane/accounts/sign-in.ts";
import { createTickets } from "../../control-plane/accounts/tickets.ts";
import { createAccountMailStore } from "../../control-plane/store/accounts/account-mail-store.ts";
import { createFactorStore } from "../../control-plane/store/accounts/factor-store.ts";
import { createProfileStore } from "../../control-plane/store/accounts/profile-store.ts";
import { createSessionStore } from "../../control-plane/store/accounts/session-store.ts";
import { createAttemptStore, createChallengeStore } from "../../control-plane/store/accounts/sign-in-store.ts";
import { log, type World } from "../integration/billing/world.ts";

export const site = { id: "stoker.example.com", origin: "https://stoker.example.com" };

/** Somebody at this address, without cookies unless they are given. */
export const from = (ip: string, change: Partial<Visitor> = {}): Visitor => ({
  ip,
  cookie: undefined,
  device: undefined,
  site,
  ...change,
});

export function signInParts(
  world: Pick<World, "db" | "secrets" | "accounts" | "accountStore">,
  {
    unixMs,
    passwords = createPasswords(world.secrets.pepper),
    isSignUpOpen = true,
    mail,
    sso = { check: async () => {} },
  }: {
    readonly unixMs: () => number;
    readonly passwords?: Passwords;
    readonly isSignUpOpen?: boolean;
    readonly mail?: AccountMailSettings;
    readonly sso?: EnforcedSso;
  },
) {
  const { db, secrets, accounts, accountStore } = world;
  const { pepper } = secrets;
  const store = createSessionStore(db);
  const sessions = createSessions({ store, pepper, unixMs });
  const factorStore = createFactorStore(db);
  const proofs = {
    tickets: createTickets({ store: createChallengeStore(db), pepper, unixMs }),
    recoveryCodes: createRecoveryCodes(pepper),
    dataKeys: createDataKeys({ store: accountStore, secrets }),
    unixMs,
  };
  const limits = createGuessLimits({ store: createAttemptStore(db), unixMs });
  const profileStore = createProfileStore(db);
  const accountMails = createAccountMails({
    ...proofs,
    store: { ...createAccountMailStore(db), ...store, ...profileStore },
    limits,
    passwords,
    mail,
    sso,
    log,
  });
  return {
    sessions,
    accountMails,
    profiles: createProfiles(profileStore, limits, accountMails, sso),
    factors: createFactors({ ...proofs, store: factorStore }),
    signIn: createSignIn({
      ...proofs,
      store,
      factors: factorStore,
      devices: createKnownDevices(pepper),
      limits,
      accounts,
      passwords,
      sessions,
      isSignUpOpen,
      mails: accountMails,
      sso,
    }),
  };
}
