// What the HTTP edge may ask of an account on its owner's behalf, with its ports filled in.
import type { CreateAccount } from "../accounts/create-account.ts";
import type { AccountSecrets } from "../accounts/envelope.ts";
import { createPasswords } from "../accounts/password.ts";
import { createProfiles } from "../accounts/profile.ts";
import { createSessions } from "../accounts/sessions.ts";
import { createSignIn } from "../accounts/sign-in.ts";
import { createSshKeys } from "../accounts/ssh-keys.ts";
import type { HttpDeps } from "../http/verbs.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createPeopleStore } from "../store/people-store.ts";
import { createSessionStore } from "../store/session-store.ts";

interface PeopleDeps {
  readonly db: OpenDatabase["db"];
  readonly secrets: AccountSecrets;
  readonly accounts: CreateAccount;
  readonly isSignUpOpen: boolean;
}

export function createPeople(deps: PeopleDeps): Pick<HttpDeps, "profiles" | "sshKeys" | "sessions" | "signIn"> {
  const { db, secrets, accounts, isSignUpOpen } = deps;
  const peopleStore = createPeopleStore(db);
  const sessionStore = createSessionStore(db);
  const sessions = createSessions({ store: sessionStore, pepper: secrets.pepper, unixMs: Date.now });
  return {
    profiles: createProfiles(peopleStore),
    sshKeys: createSshKeys(peopleStore, Date.now),
    sessions,
    signIn: createSignIn({
      store: sessionStore,
      accounts,
      passwords: createPasswords(secrets.pepper),
      sessions,
      isSignUpOpen,
      nowMs: () => performance.now(),
    }),
  };
}
