// Identity providers on a real PostgreSQL behind the real edge, with real OpenID providers, and browsers that follow redirects by hand.
import { onTestFinished } from "vitest";
import { createApiTokens } from "../../control-plane/accounts/api-tokens.ts";
import { createDataKeys } from "../../control-plane/accounts/data-keys.ts";
import { keyMonthBudget } from "../../control-plane/billing/scopes.ts";
import { AddressLimits, defaultAddressLimits } from "../../control-plane/http/connections/address-limits.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import type { NewProvider } from "../../control-plane/identity/providers.ts";
import { readPlainHosts } from "../../control-plane/plain-hosts.ts";
import { createTokenStore } from "../../control-plane/store/accounts/tokens-store.ts";
import { createIdentityStore } from "../../control-plane/store/identity/identity-store.ts";
import { createAccountFeatures } from "../../control-plane/wiring/accounts.ts";
import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import { log, openWorld } from "../integration/billing/world.ts";
import { type Edge, startEdge } from "./edge.ts";
import { startOidcServer } from "./oidc-server.ts";
import { fakePorts } from "./ports.ts";
import type { TestDatabases } from "./postgres.ts";
import { standIn } from "./stand-in.ts";

export const act = { by: "u:1", ip: "", note: "" };
export const ip = "192.0.2.1";

/** Cookies of one browser, which follows redirects by hand. */
export class Browser {
  readonly cookies = new Map<string, Map<string, string>>();

  async get(url: string, headers: Record<string, string> = {}): Promise<Response> {
    const { origin } = new URL(url);
    const jar = this.cookies.get(origin) ?? new Map();
    this.cookies.set(origin, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { redirect: "manual", headers: { cookie, ...headers } });
    for (const line of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "") jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }

  /** Follows redirects until a URL that contains `until`, which it does not open. */
  async walk(url: string, until: string): Promise<string> {
    let next = url;
    for (let steps = 0; steps < 12; steps++) {
      if (next.includes(until)) return next;
      const response = await this.get(next);
      const location = response.headers.get("location");
      if (location === null) throw new Error(`${next} replied ${response.status}: ${await response.text()}`);
      next = new URL(location, next).href;
    }
    throw new Error("too many redirects");
  }
}

export const rules = (change: Partial<NewProvider> & Pick<NewProvider, "issuer">): NewProvider => ({
  name: "Example",
  clientId: "stoker",
  clientSecret: "secret-of-the-client-which-is-long",
  scopes: "openid email profile",
  domains: ["example.com"],
  isEnforced: false,
  isListed: true,
  trustsEmail: false,
  organization: null,
  defaultRole: null,
  groupsClaim: "groups",
  roleOfGroup: {},
  defaultProjects: [],
  projectsOfGroup: {},
  ...change,
});

let current: HttpDeps | undefined;
let shared: Promise<Edge> | undefined;

/** Returns the edge of all stages of a file, which serves the newest one. */
function edgeBefore(deps: HttpDeps): Promise<Edge> {
  current = deps;
  shared ??= startEdge({ agents: 0, change: () => standIn(() => current ?? deps) });
  return shared;
}

/** Closes the edge of the file's stages. */
export async function closeIdentityEdge(): Promise<void> {
  const edge = await shared;
  shared = undefined;
  await edge?.close();
}

export async function identityStage(
  postgres: TestDatabases,
  { isPlainAllowed = true, plainIssuers = [] as readonly string[] } = {},
) {
  const world = await openWorld(postgres);
  const { db, secrets, accounts, accountStore } = world;
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  const tokens = createApiTokens({
    monthOf: keyMonthBudget,
    store: { ...accountStore, ...createTokenStore(db) },
    dataKeys,
    secrets,
  });
  const features = createAccountFeatures({
    db,
    secrets,
    accounts,
    dataKeys,
    tokens,
    deployments: { list: async () => [], get: async () => undefined, change: async () => false },
    changes: { on: () => {} },
    isSignUpOpen: true,
    mail: undefined,
    log,
    publicUrl: undefined,
    outbound: {
      blocked: [],
      mayBePlain: readPlainHosts(isPlainAllowed ? ["127.0.0.1"] : []) ?? (() => false),
      plainIssuers,
    },
  });
  const addresses = new AddressLimits(defaultAddressLimits, () => false);
  const edge = await edgeBefore({ ...fakePorts().deps, ...features, accounts, addresses, publicUrl: undefined });

  async function addProvider(change: Partial<NewProvider> = {}) {
    const server = await startOidcServer();
    onTestFinished(() => server.close());
    const { id } = await features.identityProviders.create(rules({ issuer: server.issuer, ...change }), act);
    const callback = `${edge.url}/v1/auth/oidc/${id}/callback`;
    server.allow(callback);
    return { server, id, callback, start: `${edge.url}/v1/auth/oidc/${id}/start` };
  }
  const makeAccount = async (name: string, { isAdmin = false, isVerified = true } = {}) => {
    const made = await accounts.createAccount({
      email: `${name}@example.com`,
      displayName: name,
      creditNanoUsd: nano(0n),
      isAdmin,
      ...(isVerified ? {} : { ownPassword: { hash: "x", ip } }),
    });
    return made.account;
  };
  const sessionOf = async (browser: Browser) => {
    const cookie = browser.cookies.get(edge.url)?.get("session");
    return cookie === undefined ? undefined : features.sessions.find(cookie);
  };
  /** As when the owner links it in the console. */
  const link = (account: AccountId, provider: string, name: string) =>
    createIdentityStore(db).link(
      { account, ip },
      { id: `link-${name}`, provider, subject: name, email: `${name}@example.com`, isLinkedByOwner: true },
    );
  return { link, world, features, tokens, edge, addProvider, makeAccount, sessionOf };
}

type Added = Awaited<ReturnType<Awaited<ReturnType<typeof identityStage>>["addProvider"]>>;

/** Walks to the provider and back; returns the reply to the last step. */
export async function signIn({ start, callback }: Pick<Added, "start" | "callback">, browser = new Browser()) {
  const back = await browser.walk(start, callback);
  const response = await browser.get(back);
  return { browser, back, response, text: response.status === 303 ? "" : await response.text() };
}
