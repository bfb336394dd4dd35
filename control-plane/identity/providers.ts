// The identity providers of this installation, which its operator configures.
import { domainToASCII } from "node:url";
import { randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import { badProvider, providerConflict, providerNotFound, ssoRequired } from "./errors.ts";
import type { JudgedFetches } from "./judged-fetch.ts";
import type { ProviderOutcome, ProviderRow, ProviderRules, ProviderStore } from "./store.ts";

export const maxProviders = 100;

export interface NewProvider extends ProviderRules {
  readonly issuer: string;
  /** Null: a public client, which proves itself by PKCE only. */
  readonly clientSecret: string | null;
}

/** `clientSecret` undefined: unchanged. */
export type ProviderChange = Partial<ProviderRules & { readonly clientSecret: string | null }>;

export interface ProvidersDeps {
  readonly store: ProviderStore;
  readonly seal: { seal(plain: Buffer, id: string): Buffer };
  readonly fetches: Pick<JudgedFetches, "isPlain">;
  /** Scheme, host and port of this server; undefined: links are paths. */
  readonly publicUrl: string | undefined;
}

/** Path that starts a sign-in. */
export const startPath = (id: string): string => `/v1/auth/oidc/${id}/start`;

const domainIn = (email: string): string => email.slice(email.lastIndexOf("@") + 1);

/** In lower case. Other letters than ASCII stay, so that no other domain becomes one of a provider. */
export const domainOf = (email: string): string => domainIn(email).replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Mail to other spellings of a domain, such as in full-width letters, reaches the same people. */
const mailDomainOf = (email: string): string => domainToASCII(domainIn(email)).replace(/\.+$/, "");

export function createProviders({ store, seal, fetches, publicUrl }: ProvidersDeps) {
  const sealed = (secret: string | null, id: string) => (secret === null ? null : seal.seal(Buffer.from(secret), id));

  async function get(id: string): Promise<ProviderRow> {
    const found = await store.get(id);
    if (!found) throw providerNotFound();
    return found;
  }

  function checkIssuer(issuer: string): void {
    const url = URL.parse(issuer);
    if (!url || (url.protocol !== "https:" && !fetches.isPlain(url)))
      throw badProvider(
        "issuer",
        "The issuer must be an https:// URL. Plain HTTP needs its host in STOKER_DATA_PATH_PLAIN.",
      );
    if (url.username !== "" || url.search !== "" || url.hash !== "" || issuer.includes("#"))
      throw badProvider("issuer", "The issuer must be a URL without user name, query and fragment.");
  }

  return {
    list: store.list,
    /** Throws providerNotFound, as all of these do. */
    get,
    /** Throws badProvider, providerConflict. */
    async create({ clientSecret, issuer, ...rules }: NewProvider, act: Act): Promise<ProviderRow> {
      checkIssuer(issuer);
      const id = randomId<"identity provider">(12);
      const outcome = await store.create(
        { ...rules, id, issuer, clientSecret: sealed(clientSecret, id) },
        maxProviders,
        act,
      );
      refuse(outcome);
      return get(id);
    },
    /** The issuer never changes. Throws badProvider, providerConflict. */
    async change(id: string, { clientSecret, ...rules }: ProviderChange, act: Act): Promise<ProviderRow> {
      const secret = clientSecret === undefined ? {} : { clientSecret: sealed(clientSecret, id) };
      refuse(await store.change(id, { ...rules, ...secret }, act));
      return get(id);
    },
    async remove(id: string, act: Act): Promise<ProviderRow> {
      const removed = await store.remove(id, act);
      if (!removed) throw providerNotFound();
      return removed;
    },
    /** Those that a visitor may choose, and the one of their address. */
    async offered(email: string | undefined): Promise<readonly ProviderRow[]> {
      const [all, own] = [
        await store.list(),
        email === undefined ? undefined : await store.ofAddress(email, mailDomainOf(email)),
      ];
      return own
        ? [own, ...all.filter(({ id, isListed }) => isListed && id !== own.id)]
        : all.filter((one) => one.isListed);
    },
    /** Throws ssoRequired for an address whose provider is enforced. */
    async check(email: string): Promise<void> {
      const provider = await store.ofAddress(email, mailDomainOf(email));
      if (provider?.isEnforced) throw ssoRequired(provider.name, (publicUrl ?? "") + startPath(provider.id));
    },
  };
}

export type Providers = ReturnType<typeof createProviders>;

function refuse(outcome: ProviderOutcome): void {
  switch (outcome) {
    case "done":
      return;
    case "gone":
      throw providerNotFound();
    case "full":
      throw providerConflict(`A server has at most ${maxProviders} identity providers. Delete one first.`);
    case "issuer_taken":
      throw providerConflict("An identity provider with this issuer exists. Change that one.");
    case "domain_taken":
      throw providerConflict("A domain belongs to another identity provider. Each domain belongs to one.");
    case "no_organization":
      throw badProvider(
        "organization",
        "The organisation does not exist. Its uid is listed by `GET /v1/admin/accounts`.",
      );
    case "no_project":
      throw badProvider(
        "projects_of_group",
        "A project of the rules does not exist in the provider's organisation. `GET /v1/projects` lists its projects.",
      );
    case "no_default_project":
      throw badProvider(
        "default_project_ids",
        "Where groups have projects, members of no such group need default projects: without them they could use any project.",
      );
  }
}
