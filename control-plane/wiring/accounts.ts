// Accounts, their credentials and their owners' sign-in, with their stores.

import type { Logger } from "pino";
import { steadyTime } from "../../proto/steady-time.ts";
import { type AccountMailSettings, createAccountMails } from "../accounts/account-mails.ts";
import { type ApiTokens, createApiTokens } from "../accounts/api-tokens.ts";
import { createApplications } from "../accounts/applications.ts";
import { createAuditLog } from "../accounts/audit.ts";
import { createCliLogins } from "../accounts/cli-login.ts";
import type { CreateAccount } from "../accounts/create-account.ts";
import type { DataKeys } from "../accounts/data-keys.ts";
import { createDeleteAccount } from "../accounts/delete-account.ts";
import type { AccountSecrets } from "../accounts/envelope.ts";
import { openApiKey, unwrapDek } from "../accounts/envelope.ts";
import { createFactors } from "../accounts/factors.ts";
import { createGuessLimits } from "../accounts/guess-limits.ts";
import { createIdempotency } from "../accounts/idempotency.ts";
import { noRules } from "../accounts/key-rules.ts";
import { createKnownDevices } from "../accounts/known-device.ts";
import { createMembers } from "../accounts/members.ts";
import { type CreditPort, createOperator } from "../accounts/operator.ts";
import { createPasswords } from "../accounts/password.ts";
import { createProfiles } from "../accounts/profile.ts";
import { createProjects } from "../accounts/projects.ts";
import { createRecoveryCodes } from "../accounts/recovery-codes.ts";
import { createScopedJwts } from "../accounts/scoped-jwt.ts";
import { providerSeal } from "../accounts/seals.ts";
import { createSessions } from "../accounts/sessions.ts";
import { createSignIn } from "../accounts/sign-in.ts";
import { createSshKeys } from "../accounts/ssh-keys.ts";
import type { AccountStore } from "../accounts/store.ts";
import { createTickets } from "../accounts/tickets.ts";
import { keyMonthBudget, projectMonthBudget } from "../billing/scopes.ts";
import { deleteDeployments } from "../deployments/change.ts";
import type { DeploymentStore } from "../deployments/store.ts";
import { createIssuerKeys } from "../identity/issuer-keys.ts";
import { createIssuerFetch, createJudgedFetch } from "../identity/judged-fetch.ts";
import { createOidcSignIn } from "../identity/oidc-sign-in.ts";
import { createProviderClients } from "../identity/provider-clients.ts";
import { createProviders } from "../identity/providers.ts";
import { createScim } from "../identity/scim.ts";
import { createWorkloadIdentities } from "../identity/workload-identities.ts";
import type { MayBePlain } from "../plain-hosts.ts";
import { createAccountMailStore } from "../store/accounts/account-mail-store.ts";
import { createAdminStore } from "../store/accounts/admin-store.ts";
import { createApplicationStore } from "../store/accounts/application-store.ts";
import { createAuditStore } from "../store/accounts/audit-rows.ts";
import { createFactorStore } from "../store/accounts/factor-store.ts";
import { createIdempotencyStore } from "../store/accounts/idempotency-store.ts";
import { createMemberStore } from "../store/accounts/member-store.ts";
import { createProfileStore } from "../store/accounts/profile-store.ts";
import { createProjectStore } from "../store/accounts/project-store.ts";
import { createSessionStore } from "../store/accounts/session-store.ts";
import { createAttemptStore, createChallengeStore, createCliLoginStore } from "../store/accounts/sign-in-store.ts";
import { createStreamStore } from "../store/accounts/stream-store.ts";
import { createSuspensionStore } from "../store/accounts/suspension-rows.ts";
import { createTokenStore } from "../store/accounts/tokens-store.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createIdentityStore } from "../store/identity/identity-store.ts";
import { createProviderStore } from "../store/identity/provider-store.ts";
import { createScimStore } from "../store/identity/scim-store.ts";
import { createWorkloadStore } from "../store/identity/workload-store.ts";
import { createResumableStreams } from "../streams/resumable-streams.ts";

interface AccountFeatureDeps {
  readonly db: OpenDatabase["db"];
  readonly secrets: AccountSecrets;
  readonly accounts: CreateAccount;
  readonly dataKeys: DataKeys;
  readonly isSignUpOpen: boolean;
  /** Undefined: this installation sends no mails with links. */
  readonly mail: AccountMailSettings | undefined;
  readonly log: Logger;
  readonly tokens: ApiTokens;
  readonly deployments: Pick<DeploymentStore, "list" | "get" | "change">;
  readonly changes: { on(topic: "cli_login", handler: (subject: string) => void): void };
  /** Scheme, host and port of this server, if it is configured. */
  readonly publicUrl: string | undefined;
  readonly outbound: {
    /** Networks that are never called. */
    readonly blocked: readonly string[];
    /** Hosts that may have private addresses and plain HTTP, where operators name them. */
    readonly mayBePlain: MayBePlain;
    /** Issuers of workload identities that may. */
    readonly plainIssuers: readonly string[];
  };
}

export function createAccountFeatures(deps: AccountFeatureDeps) {
  const { db, secrets, accounts, isSignUpOpen, tokens } = deps;
  const tokenStore = createTokenStore(db);
  const profileStore = createProfileStore(db);
  const sessionStore = createSessionStore(db);
  const factorStore = createFactorStore(db);
  const unixMs = steadyTime.nowMs;
  const { pepper } = secrets;
  const sessions = createSessions({ store: sessionStore, pepper, unixMs });
  const proofs = {
    tickets: createTickets({ store: createChallengeStore(db), pepper, unixMs }),
    recoveryCodes: createRecoveryCodes(pepper),
    dataKeys: deps.dataKeys,
    unixMs,
  };
  const limits = createGuessLimits({ store: createAttemptStore(db), unixMs });
  const passwords = createPasswords(pepper);
  const { blocked, mayBePlain, plainIssuers } = deps.outbound;
  const fetches = createJudgedFetch({ blocked, mayBePlain: ({ hostname }) => mayBePlain(hostname) });
  const issuers = createIssuerFetch({ blocked, exempt: plainIssuers });
  const seal = providerSeal(secrets);
  const identityProviders = createProviders({
    store: createProviderStore(db),
    seal,
    fetches,
    publicUrl: deps.publicUrl,
  });
  const identities = createIdentityStore(db);
  const accountMails = createAccountMails({
    ...proofs,
    store: { ...createAccountMailStore(db), ...sessionStore, ...profileStore },
    limits,
    passwords,
    mail: deps.mail,
    sso: identityProviders,
    log: deps.log,
  });
  const signIn = createSignIn({
    ...proofs,
    store: sessionStore,
    factors: factorStore,
    devices: createKnownDevices(pepper),
    accounts,
    passwords,
    sessions,
    mails: accountMails,
    sso: identityProviders,
    isSignUpOpen,
    limits,
  });
  return {
    members: createMembers({
      ...proofs,
      store: createMemberStore(db),
      profiles: profileStore,
      accounts,
      mail: deps.mail,
      limits,
    }),
    accountMails,
    identityProviders,
    oidc: createOidcSignIn({
      providers: identityProviders,
      clients: createProviderClients({
        fetches,
        openSecret: (sealed, provider) => seal.open(sealed, provider).toString(),
        log: deps.log,
      }),
      store: identities,
      accounts,
      signIn,
      limits,
      pepper,
      unixMs,
    }),
    scim: createScim({
      store: createScimStore(db),
      identities,
      providers: identityProviders,
      accounts,
      pepper,
    }),
    workloads: createWorkloadIdentities({
      store: createWorkloadStore(db),
      tokens,
      keys: createIssuerKeys(issuers.to),
      issuers,
      limits,
      unixMs,
    }),
    profiles: createProfiles(profileStore, limits, accountMails, identityProviders),
    sshKeys: createSshKeys(profileStore, unixMs),
    sessions,
    factors: createFactors({ ...proofs, store: factorStore }),
    signIn,
    cliLogins: createCliLogins({
      store: createCliLoginStore(db),
      pepper,
      async makeKey({ account, ip, by = account }, name, member) {
        const act = { by, ip, note: "stoker login" };
        const { key } = await tokens.create(account, name, noRules, act, null, { member });
        return key;
      },
      async openKey(account, key) {
        const sealed = await tokenStore.findSealedKey(account, key);
        return sealed && openApiKey(unwrapDek(secrets, sealed.wrappedDek, account), sealed.ciphertext, account, key);
      },
      async endKey({ account, ip, by = account }, key) {
        const act = { by, ip, note: "another request received the key of this login" };
        await tokens.revoke({ account }, key, act);
      },
      changes: deps.changes,
      unixMs,
    }),
    projects: createProjects({ store: createProjectStore(db), monthOf: projectMonthBudget }),
    deleteAccount: createDeleteAccount({
      store: profileStore,
      endDeployments: (actor) => deleteDeployments(deps.deployments, actor),
    }),
  };
}

export function createTokens(deps: {
  readonly db: OpenDatabase["db"];
  readonly accountStore: AccountStore;
  readonly dataKeys: DataKeys;
  readonly secrets: AccountSecrets;
  readonly log: Logger;
}) {
  const { accountStore, dataKeys, secrets } = deps;
  const store = { ...accountStore, ...createTokenStore(deps.db), ...createAttemptStore(deps.db) };
  return {
    tokens: createApiTokens({ store, dataKeys, secrets, monthOf: keyMonthBudget }),
    scopedJwts: createScopedJwts({ store, secrets }),
    idempotency: createIdempotency({ store: createIdempotencyStore(deps.db), dataKeys }),
    streams: createResumableStreams({ store: createStreamStore(deps.db), dataKeys, log: deps.log }),
  };
}

export function createOperatorFeatures(db: OpenDatabase["db"], funds: CreditPort) {
  return {
    operator: createOperator({ store: createAdminStore(db), suspensions: createSuspensionStore(db), funds }),
    audit: createAuditLog(createAuditStore(db)),
    applications: createApplications(createApplicationStore(db)),
  };
}
