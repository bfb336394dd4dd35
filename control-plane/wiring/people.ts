// What the HTTP edge may ask of an account on its owner's behalf, with its ports filled in.
import type { ApiTokens } from "../accounts/api-tokens.ts";
import { createCliLogins } from "../accounts/cli-login.ts";
import type { CreateAccount } from "../accounts/create-account.ts";
import { createDeleteAccount } from "../accounts/delete-account.ts";
import type { AccountSecrets } from "../accounts/envelope.ts";
import { openApiKey, unwrapDek } from "../accounts/envelope.ts";
import { createPasswords } from "../accounts/password.ts";
import { createProfiles } from "../accounts/profile.ts";
import { createSessions } from "../accounts/sessions.ts";
import { createSignIn } from "../accounts/sign-in.ts";
import { createSshKeys } from "../accounts/ssh-keys.ts";
import { deleteDeployments } from "../deployments/change.ts";
import type { DeploymentStore } from "../deployments/store.ts";
import type { HttpDeps } from "../http/verbs.ts";
import { createAttemptStore } from "../store/attempt-store.ts";
import { createCliLoginStore } from "../store/cli-login-store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createPeopleStore } from "../store/people-store.ts";
import { createSessionStore } from "../store/session-store.ts";
import { createTokenStore } from "../store/tokens-store.ts";

interface PeopleDeps {
  readonly db: OpenDatabase["db"];
  readonly secrets: AccountSecrets;
  readonly accounts: CreateAccount;
  readonly isSignUpOpen: boolean;
  readonly tokens: ApiTokens;
  readonly deployments: Pick<DeploymentStore, "list" | "get" | "change">;
  readonly changes: { on(topic: "cli_login", handler: (subject: string) => void): void };
}

type PeopleVerbs = Pick<HttpDeps, "profiles" | "sshKeys" | "sessions" | "signIn" | "cliLogins" | "deleteAccount">;

export function createPeople(deps: PeopleDeps): PeopleVerbs {
  const { db, secrets, accounts, isSignUpOpen, tokens } = deps;
  const tokenStore = createTokenStore(db);
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
      attempts: createAttemptStore(db),
      unixMs: Date.now,
    }),
    cliLogins: createCliLogins({
      store: createCliLoginStore(db),
      pepper: secrets.pepper,
      async makeKey({ account, ip }, name) {
        const { key } = await tokens.create(
          account,
          { name, allowedIps: null },
          { by: account, ip, note: "stoker login" },
        );
        return key;
      },
      async openKey(account, key) {
        const sealed = await tokenStore.findSealedKey(account, key);
        return sealed && openApiKey(unwrapDek(secrets, sealed.wrappedDek, account), sealed.ciphertext, account, key);
      },
      async endKey({ account, ip }, key) {
        await tokens.revoke(account, key, { by: account, ip, note: "the login was answered by somebody else" });
      },
      changes: deps.changes,
      unixMs: Date.now,
    }),
    deleteAccount: createDeleteAccount({
      store: peopleStore,
      endDeployments: (account) => deleteDeployments(deps.deployments, account),
    }),
  };
}
