import { type Static, Type } from "typebox";
import type { ProjectId } from "../../../proto/ids.ts";
import { type ProvidedRole, providedRoles } from "../../identity/store.ts";
import { nullable } from "../inference/sampling-schemas.ts";

const words = (maxLength: number, description?: string) =>
  Type.String({ minLength: 1, maxLength, pattern: "^[^\\u0000]*$", ...(description ? { description } : {}) });

const domain = Type.String({
  maxLength: 253,
  pattern: "^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$",
});

const project = Type.Unsafe<ProjectId>(Type.String({ minLength: 1, maxLength: 64, pattern: "^[^\\u0000]*$" }));

const role = Type.Unsafe<ProvidedRole>({ type: "string", enum: [...providedRoles] });
const roleOrNone = (description: string) =>
  Type.Unsafe<ProvidedRole | null>({ type: ["string", "null"], enum: [...providedRoles, null], description });

const rules = {
  name: words(64, "Shown on the button of the sign-in page"),
  client_id: words(512),
  scopes: Type.String({
    maxLength: 512,
    pattern: "^openid( [!-~]+)*$",
    description: "Scopes that are asked for, `openid` first",
  }),
  domains: Type.Array(domain, {
    maxItems: 50,
    uniqueItems: true,
    description:
      "Domains of e-mail addresses that the provider may vouch for, in lower case. A domain belongs to one provider",
  }),
  is_enforced: Type.Boolean({ description: "Addresses of these domains sign in through this provider only" }),
  is_listed: Type.Boolean({ description: "The sign-in page shows its button to everybody" }),
  trusts_email: Type.Boolean({
    description: "Addresses without the claim `email_verified` count as verified, as those of Entra ID",
  }),
  organization: nullable.string({ maxLength: 64, description: "uid of the organisation whose members its people are" }),
  default_role: roleOrNone("Role of people without a mapped group; null: they are no members"),
  groups_claim: words(128, "Claim of the ID token, or of userinfo, that lists groups"),
  role_of_group: Type.Record(Type.String({ minLength: 1, maxLength: 256, pattern: "^[^\\u0000]*$" }), role, {
    maxProperties: 200,
    description: "Role by the name of a group. Of several the one with the most rights counts",
  }),
  default_project_ids: Type.Array(project, {
    maxItems: 20,
    uniqueItems: true,
    description:
      "Projects of the organisation for members none of whose groups has projects, the default first. Required where a group has projects; empty: any project, or none",
  }),
  projects_of_group: Type.Record(
    Type.String({ minLength: 1, maxLength: 256, pattern: "^[^\\u0000]*$" }),
    Type.Array(project, { minItems: 1, maxItems: 20, uniqueItems: true }),
    { maxProperties: 200, description: "Projects by the name of a group. Members have those of all their groups" },
  ),
};

const secret = {
  client_secret: Type.Optional(
    nullable.string({
      minLength: 1,
      maxLength: 2_048,
      pattern: "^[^\\u0000]*$",
      description: "Stored sealed and never shown; null: a public client",
    }),
  ),
};

export const ProviderCreate = Type.Object({
  ...Type.Partial(Type.Object(rules)).properties,
  name: rules.name,
  issuer: Type.String({ maxLength: 512, pattern: "^https?://[!-~]+$", description: "Never changes" }),
  client_id: rules.client_id,
  ...secret,
});
export type ProviderCreate = Static<typeof ProviderCreate>;

export const ProviderPatch = Type.Object({ ...Type.Partial(Type.Object(rules)).properties, ...secret });
export type ProviderPatch = Static<typeof ProviderPatch>;

export const Provider = Type.Object({
  id: Type.String(),
  issuer: Type.String(),
  ...rules,
  has_client_secret: Type.Boolean(),
  redirect_uri: Type.String({ description: "To be registered at the provider" }),
  has_scim_token: Type.Boolean(),
  created_at: Type.Integer({ description: "Unix seconds" }),
});

export const OfferedProviders = Type.Object({
  providers: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String(),
      url: Type.String({ description: "Starts the sign-in" }),
      is_enforced: Type.Boolean({ description: "Addresses of this domain have no other sign-in" }),
    }),
    { description: "First the one of the address's domain, then those that are shown to everybody" },
  ),
});

export const OwnIdentities = Type.Object({
  identities: Type.Array(
    Type.Object({
      id: Type.String(),
      provider_id: Type.String(),
      provider_name: Type.String(),
      email: Type.String(),
      is_managed: Type.Boolean({ description: "The provider created the account" }),
      created_at: Type.Integer({ description: "Unix seconds" }),
      last_used_at: nullable.integer({ description: "Unix seconds" }),
    }),
  ),
});
