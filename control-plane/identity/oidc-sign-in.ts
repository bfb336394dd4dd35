// Sign-in through an identity provider: authorization code with PKCE, state and nonce (OpenID Connect). `state` names a record that
// is used once and belongs to one browser and one provider. So a reply that was injected, replayed or meant for another provider is refused.
import { createHmac, hkdfSync, randomBytes, randomInt } from "node:crypto";
import { type AccountId, randomId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import type { CreateAccount } from "../accounts/create-account.ts";
import type { SessionFactor } from "../accounts/factor-store.ts";
import type { GuessLimits } from "../accounts/guess-limits.ts";
import type { SignIn, SignInStep, Visitor } from "../accounts/sign-in.ts";
import { type Actor, bySystem } from "../act.ts";
import { ServiceError } from "../service-error.ts";
import {
  authTimeMsOf,
  type Claims,
  displayNameOf,
  groupsOf,
  provenEmail,
  provenEmailOrNone,
  subjectOf,
} from "./claims.ts";
import {
  identityInactive,
  identityManaged,
  identityNotFound,
  identityTaken,
  linkRequired,
  providerFailed,
  signInNotFresh,
  signInRefused,
} from "./errors.ts";
import { loadClient, type ProviderClients } from "./provider-clients.ts";
import type { Providers } from "./providers.ts";
import { returnPath } from "./return-path.ts";
import type { IdentityRow, IdentityStore, PendingSignIn, ProviderRow } from "./store.ts";

/** Time in which a person signs in at the provider. */
const signInMs = 600_000;
/** A fresh sign-in at the provider may be older than our request for it by this, because clocks differ. */
const clockToleranceMs = 60_000;
const cookieForm = /^[\w-]{43}$/;

export interface Departure {
  /** At the provider. */
  readonly url: string;
  /** Value of the browser's cookie for sign-ins. */
  readonly cookie: string;
}

export interface StartOptions {
  /** Scheme, host and port of this server. */
  readonly origin: string;
  readonly returnTo: string | undefined;
  /** The browser's present cookie for sign-ins. */
  readonly cookie: string | undefined;
  /** The person must sign in at the provider, also with a session there. */
  readonly isFresh: boolean;
  readonly email: string | undefined;
  readonly link?: PendingSignIn["link"];
}

export interface Arrival {
  /** The whole URL that the provider sent the browser to, as this server is reached. */
  readonly url: URL;
  readonly cookie: string | undefined;
  readonly visitor: Visitor;
  /** Session of the browser, if it has one. */
  readonly session:
    | { readonly account: AccountId; readonly lookup: Buffer; readonly factors: readonly SessionFactor[] }
    | undefined;
}

/** `step` undefined: the identity was linked to the account of the session. */
export interface Arrived {
  readonly returnTo: string;
  readonly step: SignInStep | undefined;
}

export interface OidcSignInDeps {
  readonly providers: Pick<Providers, "get">;
  readonly clients: ProviderClients;
  readonly store: IdentityStore;
  readonly accounts: Pick<CreateAccount, "createAccount">;
  readonly signIn: Pick<SignIn, "enterByProvider">;
  readonly limits: Pick<GuessLimits, "address">;
  readonly pepper: Buffer;
  readonly unixMs: () => number;
}

export const callbackPath = (provider: string): string => `/v1/auth/oidc/${provider}/callback`;

export function createOidcSignIn(deps: OidcSignInDeps) {
  const { providers, clients, store, limits, unixMs } = deps;
  const key = Buffer.from(hkdfSync("sha256", deps.pepper, "", "stoker provider sign-ins", 32));
  const keyed = (purpose: string, text: string) => createHmac("sha256", key).update(`${purpose}|${text}`).digest();
  /** Nonce and PKCE verifier follow from state and cookie, so they are stored nowhere. */
  const secretsOf = (state: string, cookie: string) => ({
    nonce: keyed("nonce", `${state}|${cookie}`).toString("base64url"),
    verifier: keyed("verifier", `${state}|${cookie}`).toString("base64url"),
  });

  async function claimsOf(provider: ProviderRow, url: URL, state: string, cookie: string): Promise<Claims> {
    const [client, config] = [await loadClient(), await clients.of(provider)];
    const { nonce, verifier } = secretsOf(state, cookie);
    try {
      const tokens = await client.authorizationCodeGrant(config, url, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      const claims: Claims = { ...tokens.claims() };
      const subject = subjectOf(claims);
      if (subject === undefined) throw signInRefused(provider.name);
      const isComplete = claims["email"] !== undefined && claims[provider.groupsClaim] !== undefined;
      if (isComplete || config.serverMetadata().userinfo_endpoint === undefined) return claims;
      // The ID token counts where both have a claim: it is signed.
      return { ...(await client.fetchUserInfo(config, tokens.access_token, subject)), ...claims };
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      throw isRefusal(error) ? signInRefused(provider.name, error) : providerFailed(provider.name, error);
    }
  }

  /** Returns the identity of this subject; creates it, and its account, as far as the provider may. */
  async function identityOf(provider: ProviderRow, subject: string, claims: Claims, ip: string): Promise<IdentityRow> {
    const known = await store.find(provider.id, subject);
    if (known) return known;
    const email = provenEmail(provider, claims);
    const provisioned = await store.findProvisioned(provider.id, email);
    if (provisioned) {
      if (!(await store.bindSubject(provisioned.id, subject))) throw identityTaken();
      return { ...provisioned, subject };
    }
    const owner = await store.ownerOf(email);
    if (!owner) await createPerson(deps.accounts, provider, { subject, email, claims });
    else {
      // The provider's word must not replace a proof that the account has chosen, let a stranger keep one, or make an operator.
      if (!owner.isVerified || owner.isProtected || owner.hasOwnProof) throw linkRequired(provider.name);
      await link({ account: owner.account, ip }, provider, { subject, email, isLinkedByOwner: false });
    }
    const made = await store.find(provider.id, subject);
    if (!made) throw identityTaken();
    return made;
  }

  async function link(
    actor: Actor,
    provider: ProviderRow,
    identity: { readonly subject: string; readonly email: string; readonly isLinkedByOwner: boolean },
  ): Promise<void> {
    const id = randomId<"identity">(16);
    const outcome = await store.link(actor, { id, provider: provider.id, ...identity });
    if (outcome !== "done") throw identityTaken();
  }

  return {
    /** Throws providerNotFound, providerFailed, TooManyAttempts. */
    async start(id: string, options: StartOptions, ip: string): Promise<Departure> {
      await limits.address(ip);
      const provider = await providers.get(id);
      const [client, config] = [await loadClient(), await clients.of(provider)];
      const given = options.cookie;
      const cookie = given !== undefined && cookieForm.test(given) ? given : randomBytes(32).toString("base64url");
      const state = randomBytes(32).toString("base64url");
      const { nonce, verifier } = secretsOf(state, cookie);
      const pending = {
        provider: id,
        browser: keyed("browser", cookie),
        returnTo: returnPath(options.returnTo),
        isFresh: options.isFresh,
        link: options.link ?? null,
      };
      await store.putSignIn(keyed("state", state), pending, unixMs() + signInMs);
      const url = client.buildAuthorizationUrl(config, {
        redirect_uri: options.origin + callbackPath(id),
        scope: provider.scopes,
        state,
        nonce,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
        ...(options.isFresh ? { prompt: "login", max_age: "0" } : {}),
        ...(options.email === undefined ? {} : { login_hint: options.email }),
      });
      return { url: url.href, cookie };
    },

    /** Throws signInRefused, providerFailed, emailUnverified, domainNotListed, linkRequired, identityInactive, identityTaken. */
    async finish(id: string, { url, cookie, visitor, session }: Arrival): Promise<Arrived> {
      await limits.address(visitor.ip);
      const provider = await providers.get(id);
      const state = url.searchParams.get("state");
      const pending = state === null ? undefined : await store.takeSignIn(keyed("state", state), unixMs());
      const isOwn = cookie !== undefined && pending?.browser.equals(keyed("browser", cookie)) === true;
      if (state === null || cookie === undefined || !isOwn || pending.provider !== id)
        throw signInRefused(provider.name);
      const claims = await claimsOf(provider, url, state, cookie);
      const subject = subjectOf(claims);
      if (subject === undefined) throw signInRefused(provider.name);
      const authTimeMs = authTimeMsOf(claims);
      // `max_age` obliges a provider to send `auth_time`. Some do not: then nobody knows whether the person was asked. A link may do
      // without, because its session has proven its owner.
      const isExempt = pending.link !== null && authTimeMs === 0;
      const startedAtMs = pending.expiresAtMs - signInMs;
      if (pending.isFresh && !isExempt && authTimeMs < startedAtMs - clockToleranceMs)
        throw signInNotFresh(provider.name);

      const { ip } = visitor;
      if (pending.link) {
        const { account, session: lookup } = pending.link;
        if (session?.account !== account || !session.lookup.equals(lookup)) throw signInRefused(provider.name);
        const email = typeof claims["email"] === "string" ? claims["email"].replaceAll("\0", "").slice(0, 320) : "";
        // A session that a provider opened proves no more than the provider does.
        const isLinkedByOwner = session.factors.some((factor) => factor !== "oidc");
        await link({ account, ip }, provider, { subject, email, isLinkedByOwner });
      }
      const identity = await identityOf(provider, subject, claims, ip);
      if (!identity.isActive) throw identityInactive(provider.name);
      // Also one that was created or linked by its address before the account became an operator's.
      if (identity.isProtected && !identity.isLinkedByOwner && !pending.link) throw linkRequired(provider.name);
      const use = {
        email: provenEmailOrNone(provider, claims),
        groups: groupsOf(claims, provider.groupsClaim),
      };
      await store.noteUse(identity.id, use, { ...bySystem(`sign-in through ${provider.name}`), ip });
      const step = pending.link
        ? undefined
        : await deps.signIn.enterByProvider(identity.account, visitor, {
            authTimeMs,
            asksFactor: !identity.isLinkedByOwner,
          });
      return { returnTo: pending.returnTo, step };
    },

    /** Identities that are linked to an account. */
    own: store.own,

    /** Ends the sessions that it opened. Throws identityNotFound, identityManaged. */
    async unlink(actor: Actor, identity: string): Promise<void> {
      const outcome = await store.unlink(actor, identity);
      if (outcome === "gone") throw identityNotFound();
      if (outcome === "managed") throw identityManaged();
    },
  };
}

export type OidcSignIn = ReturnType<typeof createOidcSignIn>;

/** The account of a person whom a provider introduces: no password, and a verified address. */
export async function createPerson(
  accounts: Pick<CreateAccount, "createAccount">,
  provider: Pick<ProviderRow, "id" | "name">,
  person: {
    readonly subject: string | null;
    readonly email: string;
    readonly claims: Claims;
    /** Id of the new identity; default: a random one. */
    readonly id?: string;
  },
): Promise<AccountId> {
  const wanted = displayNameOf(person.claims, person.email);
  const identity = {
    id: person.id ?? randomId<"identity">(16),
    provider: provider.id,
    subject: person.subject,
  };
  for (const attempt of [1, 2, 3, 4, 5]) {
    const displayName = attempt === 1 ? wanted : `${wanted}-${randomInt(1000, 1_000_000)}`;
    try {
      const { account } = await accounts.createAccount({
        email: person.email,
        displayName,
        creditNanoUsd: nano(0n),
        isAdmin: false,
        act: bySystem(`introduced by ${provider.name}`),
        identity,
      });
      return account;
    } catch (error) {
      const isNameTaken =
        error instanceof ServiceError && error.code === "name_taken" && error.param === "display_name";
      if (!isNameTaken || attempt === 5) throw error;
    }
  }
  throw new Error("could not find a free display name");
}

/** True when the provider replied, with something that is not accepted. */
function isRefusal(error: unknown): boolean {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  if (code === "OAUTH_TIMEOUT" || code === "OAUTH_ABORT") return false;
  return (
    String(code ?? "").startsWith("OAUTH_") || name === "AuthorizationResponseError" || name === "ResponseBodyError"
  );
}
