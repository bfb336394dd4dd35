// What the SCIM service says about itself.

const attribute = (name: string, change: object = {}) => ({
  name,
  type: "string",
  multiValued: false,
  required: false,
  caseExact: false,
  mutability: "readWrite",
  returned: "default",
  uniqueness: "none",
  ...change,
});

const schema = (name: "User" | "Group", attributes: readonly object[], base: string) => ({
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
  id: `urn:ietf:params:scim:schemas:core:2.0:${name}`,
  name,
  attributes,
  meta: { resourceType: "Schema", location: `${base}/Schemas/urn:ietf:params:scim:schemas:core:2.0:${name}` },
});

const resourceType = (name: "User" | "Group", base: string) => ({
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
  id: name,
  name,
  endpoint: `/${name}s`,
  schema: `urn:ietf:params:scim:schemas:core:2.0:${name}`,
  meta: { resourceType: "ResourceType", location: `${base}/ResourceTypes/${name}` },
});

const listed = (resources: readonly object[]) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
  totalResults: resources.length,
  startIndex: 1,
  itemsPerPage: resources.length,
  Resources: resources,
});

const userAttributes = [
  attribute("userName", { required: true, uniqueness: "server" }),
  attribute("externalId", { caseExact: true }),
  attribute("name", { type: "complex", subAttributes: [attribute("givenName"), attribute("familyName")] }),
  attribute("displayName"),
  attribute("active", { type: "boolean" }),
  attribute("emails", { type: "complex", multiValued: true, subAttributes: [attribute("value"), attribute("type")] }),
  attribute("groups", {
    type: "complex",
    multiValued: true,
    mutability: "readOnly",
    subAttributes: [attribute("value")],
  }),
];
const groupAttributes = [
  attribute("displayName", { required: true, uniqueness: "server" }),
  attribute("externalId", { caseExact: true }),
  attribute("members", { type: "complex", multiValued: true, subAttributes: [attribute("value")] }),
];

/** Replies of the discovery endpoints (RFC 7644, section 4). */
export const discoveryOf = (base: string) => ({
  ServiceProviderConfig: {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: 200 },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: false },
    authenticationSchemes: [
      { type: "oauthbearertoken", name: "Bearer token", description: "The token of the identity provider" },
    ],
    meta: { resourceType: "ServiceProviderConfig", location: `${base}/ServiceProviderConfig` },
  },
  ResourceTypes: listed([resourceType("User", base), resourceType("Group", base)]),
  Schemas: listed([schema("User", userAttributes, base), schema("Group", groupAttributes, base)]),
});
