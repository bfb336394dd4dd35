// Identity providers: for operators who configure them, for visitors who sign in, and for people who link their account.

import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { isLoopbackHost } from "../../../proto/address-rules.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { noPublicUrl } from "../../identity/errors.ts";
import { callbackPath } from "../../identity/oidc-sign-in.ts";
import { type NewProvider, type ProviderChange, startPath } from "../../identity/providers.ts";
import type { ProviderRow } from "../../identity/store.ts";
import { ownSession } from "../accounts/session.ts";
import { actOf, actorOf, originOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { IdentityFeatures } from "./features.ts";
import { giveProviderCookie, providerCookieOf } from "./provider-cookie.ts";
import { OfferedProviders, OwnIdentities, Provider, ProviderCreate, ProviderPatch } from "./provider-schemas.ts";

interface Deps extends IdentityFeatures {
  readonly publicUrl: string | undefined;
}

/** Defaults of a provider's rules. */
const defaults = {
  scopes: "openid email profile",
  domains: [],
  isEnforced: false,
  isListed: true,
  trustsEmail: false,
  organization: null,
  defaultRole: null,
  groupsClaim: "groups",
  roleOfGroup: {},
  defaultProjects: [],
  projectsOfGroup: {},
} as const;

/** Origin of the redirect URI: as configured; without STOKER_PUBLIC_URL only on this machine, because a client chooses the Host header. */
export function providerOrigin(publicUrl: string | undefined, request: FastifyRequest): string {
  if (publicUrl !== undefined) return new URL(publicUrl).origin;
  const origin = originOf(undefined, request);
  if (!isLoopbackHost(URL.parse(origin)?.hostname ?? "")) throw noPublicUrl();
  return origin;
}

export function addProviderRoutes(endpoints: Endpoints, deps: Deps): void {
  const { identityProviders: providers } = deps;
  const admin = endpoints.with({ tag: "operator", access: "admin", holdsSecrets: true });
  const path = "/v1/admin/identity-providers";
  const rendered = (row: ProviderRow, request: FastifyRequest) =>
    renderProvider(row, originOf(deps.publicUrl, request));

  admin.post(path, {
    summary: "Add an identity provider (OpenID Connect)",
    needsRecentSignIn: true,
    bodyLimitBytes: 128 * 1024,
    body: ProviderCreate,
    answer: Provider,
    refusals: [409],
    async handler({ caller, body, reply }) {
      const { issuer, client_secret: clientSecret = null } = body;
      const request: NewProvider = {
        ...defaults,
        ...rulesIn(body),
        name: body.name,
        clientId: body.client_id,
        issuer,
        clientSecret,
      };
      return rendered(await providers.create(request, actOf(caller, reply)), reply.request);
    },
  });

  admin.get(path, {
    summary: "List the identity providers",
    answer: Type.Object({ providers: Type.Array(Provider) }),
    handler: async ({ reply }) => ({ providers: (await providers.list()).map((row) => rendered(row, reply.request)) }),
  });

  admin.get(`${path}/:id`, {
    summary: "Get an identity provider",
    answer: Provider,
    refusals: [404],
    handler: async ({ params, reply }) => rendered(await providers.get(params.id), reply.request),
  });

  admin.patch(`${path}/:id`, {
    summary: "Change an identity provider; its issuer never changes",
    needsRecentSignIn: true,
    bodyLimitBytes: 128 * 1024,
    body: ProviderPatch,
    answer: Provider,
    refusals: [404, 409],
    async handler({ caller, params, body, reply }) {
      const secret = body.client_secret === undefined ? {} : { clientSecret: body.client_secret };
      const changed = await providers.change(params.id, { ...rulesIn(body), ...secret }, actOf(caller, reply));
      return rendered(changed, reply.request);
    },
  });

  admin.delete(`${path}/:id`, {
    summary: "Delete an identity provider and what it knows of people; their accounts stay",
    needsRecentSignIn: true,
    answer: Provider,
    refusals: [404],
    handler: async ({ caller, params, reply }) =>
      rendered(await providers.remove(params.id, actOf(caller, reply)), reply.request),
  });
}

export function addScimTokenRoutes(endpoints: Endpoints, { scim, identityProviders, publicUrl }: Deps): void {
  const admin = endpoints.with({ tag: "operator", access: "admin", holdsSecrets: true });
  const path = "/v1/admin/identity-providers/:id/scim-token";

  admin.post(path, {
    summary:
      "Create the token by which an identity provider provisions people and groups (SCIM 2.0); the one before ends",
    needsRecentSignIn: true,
    answer: Type.Object({
      token: Type.String({ description: "Shown once" }),
      url: Type.String({ description: "Address of the SCIM service, for the provider" }),
    }),
    refusals: [404],
    async handler({ caller, params, reply }) {
      const token = await scim.createToken(params.id, actOf(caller, reply));
      return { token, url: `${originOf(publicUrl, reply.request)}/scim/v2` };
    },
  });

  admin.delete(path, {
    summary: "End the SCIM token of an identity provider; people and groups stay",
    needsRecentSignIn: true,
    answer: Provider,
    refusals: [404],
    async handler({ caller, params, reply }) {
      await scim.removeToken(params.id, actOf(caller, reply));
      return renderProvider(await identityProviders.get(params.id), originOf(publicUrl, reply.request));
    },
  });
}

export function addIdentityRoutes(endpoints: Endpoints, deps: Deps): void {
  const { identityProviders: providers, oidc, publicUrl } = deps;
  const open = endpoints.with({ tag: "account", access: "public" });
  const own = endpoints.with({ tag: "account", access: "key" });

  open.get("/v1/auth/providers", {
    summary: "List the identity providers of the sign-in page, with the one of an e-mail address's domain",
    query: Type.Object({ email: Type.Optional(Type.String({ maxLength: 320, pattern: "^[^\\u0000]*$" })) }),
    answer: OfferedProviders,
    async handler({ query }) {
      const offered = await providers.offered(query.email);
      return {
        providers: offered.map(({ id, name, isEnforced }) => ({
          id,
          name,
          url: startPath(id),
          is_enforced: isEnforced,
        })),
      };
    },
  });

  own.get("/v1/me/identities", {
    right: "readSignIn",
    summary: "List the identities of providers that are linked to the account",
    answer: OwnIdentities,
    async handler({ caller }) {
      const identities = await oidc.own(caller.account);
      return {
        identities: identities.map((one) => ({
          id: one.id,
          provider_id: one.provider,
          provider_name: one.providerName,
          email: one.email,
          is_managed: one.isManaged,
          created_at: unixSeconds(one.createdAtMs),
          last_used_at: one.lastUsedAtMs === null ? null : unixSeconds(one.lastUsedAtMs),
        })),
      };
    },
  });

  own.post("/v1/me/identities", {
    right: "changeSignIn",
    summary: "Start to link an identity of a provider; the browser opens `url`",
    needsRecentSignIn: true,
    body: Type.Object({ provider_id: Type.String({ maxLength: 64 }) }),
    answer: Type.Object({ url: Type.String({ description: "At the provider" }) }),
    refusals: [404, 409, 429, 502],
    async handler({ body, reply }) {
      const { caller, lookup } = ownSession(reply);
      const { request } = reply;
      const departure = await oidc.start(
        body.provider_id,
        {
          origin: providerOrigin(publicUrl, request),
          returnTo: "/console/security",
          cookie: providerCookieOf(request),
          isFresh: true,
          email: caller.email,
          link: { account: caller.account, session: lookup },
        },
        request.ip,
      );
      giveProviderCookie(reply, departure.cookie);
      return { url: departure.url };
    },
  });

  own.delete("/v1/me/identities/:id", {
    right: "changeSignIn",
    summary: "Unlink an identity; ends the sessions that providers opened",
    needsRecentSignIn: true,
    refusals: [404, 409],
    async handler({ caller, params, reply }) {
      ownSession(reply);
      await oidc.unlink(actorOf(caller, reply), params.id);
    },
  });
}

/** The given rules; names as the feature has them. */
function rulesIn(body: ProviderPatch): Omit<ProviderChange, "clientSecret"> {
  const given: Record<string, unknown> = {
    name: body.name,
    clientId: body.client_id,
    scopes: body.scopes,
    domains: body.domains,
    isEnforced: body.is_enforced,
    isListed: body.is_listed,
    trustsEmail: body.trusts_email,
    organization: body.organization as AccountId | null | undefined,
    defaultRole: body.default_role,
    groupsClaim: body.groups_claim,
    roleOfGroup: body.role_of_group,
    defaultProjects: body.default_project_ids,
    projectsOfGroup: body.projects_of_group,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

const renderProvider = (row: ProviderRow, origin: string) => ({
  id: row.id,
  issuer: row.issuer,
  name: row.name,
  client_id: row.clientId,
  has_client_secret: row.clientSecret !== null,
  scopes: row.scopes,
  domains: [...row.domains],
  is_enforced: row.isEnforced,
  is_listed: row.isListed,
  trusts_email: row.trustsEmail,
  organization: row.organization,
  default_role: row.defaultRole,
  groups_claim: row.groupsClaim,
  role_of_group: row.roleOfGroup,
  default_project_ids: [...row.defaultProjects],
  projects_of_group: Object.fromEntries(
    Object.entries(row.projectsOfGroup).map(([group, projects]) => [group, [...projects]]),
  ),
  redirect_uri: origin + callbackPath(row.id),
  has_scim_token: row.scimCreatedAtMs !== null,
  created_at: unixSeconds(row.createdAtMs),
});
