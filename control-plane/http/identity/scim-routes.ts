// SCIM 2.0 (RFC 7643, 7644) at /scim/v2, with a token of the provider. Not part of the API description: the RFCs are.
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Listed, Scim, ScimClient } from "../../identity/scim.ts";
import type { ScimGroup, ScimUser } from "../../identity/store.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { IdentityFeatures } from "./features.ts";
import { discoveryOf } from "./scim-schemas.ts";

const bodyLimitBytes = 128 * 1024;
const bearer = /^bearer +(\S+) *$/i;

interface Reply {
  readonly status: number;
  /** Undefined: none. */
  readonly body?: object;
}

interface Asked {
  readonly client: ScimClient;
  readonly id: string;
  readonly body: unknown;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Base URL of the SCIM service. */
  readonly base: string;
}

export function addScimRoutes(
  endpoints: Endpoints,
  { scim, publicUrl }: IdentityFeatures & { readonly publicUrl: string | undefined },
): void {
  const add = (
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    summary: string,
    work: (asked: Asked) => Promise<Reply> | Reply,
  ): void =>
    endpoints.addRaw(
      {
        method,
        path: `/scim/v2${path}`,
        summary,
        tag: "operator",
        access: "public",
        dialect: "scim",
        isHidden: true,
        bodyLimitBytes,
        answer: Type.Any(),
      },
      async (request, reply) => {
        const client = await scim.enter(bearer.exec(request.headers.authorization ?? "")?.[1], request.ip);
        const { id = "" } = request.params as { id?: string };
        const base = `${publicUrl ?? `${request.protocol}://${request.host}`}/scim/v2`;
        return send(reply, await work({ client, id, body: request.body, query: queryOf(request), base }));
      },
    );

  addUsers(add, scim);
  addGroups(add, scim);
  for (const path of ["ServiceProviderConfig", "ResourceTypes", "Schemas"] as const)
    add("GET", `/${path}`, `SCIM: ${path}`, ({ base }) => ok(discoveryOf(base)[path]));
}

type Add = (
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  summary: string,
  work: (asked: Asked) => Promise<Reply> | Reply,
) => void;

function addUsers(add: Add, scim: Scim): void {
  add("GET", "/Users", "SCIM: list users", async ({ client, query, base }) =>
    ok(rendered(await scim.users(client, query), (user) => renderUser(user, base))),
  );
  add("POST", "/Users", "SCIM: create a user", async ({ client, body, base }) => ({
    status: 201,
    body: renderUser(await scim.createUser(client, body), base),
  }));
  add("GET", "/Users/:id", "SCIM: get a user", async ({ client, id, base }) =>
    ok(renderUser(await scim.user(client, id), base)),
  );
  add("PUT", "/Users/:id", "SCIM: replace a user", async ({ client, id, body, base }) =>
    ok(renderUser(await scim.replaceUser(client, id, body), base)),
  );
  add("PATCH", "/Users/:id", "SCIM: change a user", async ({ client, id, body, base }) =>
    ok(renderUser(await scim.patchUser(client, id, body), base)),
  );
  add("DELETE", "/Users/:id", "SCIM: delete a user", async ({ client, id }) => {
    await scim.removeUser(client, id);
    return { status: 204 };
  });
}

function addGroups(add: Add, scim: Scim): void {
  const withMembers = ({ excludedAttributes }: Asked["query"]) => !/(^|,)\s*members\b/i.test(excludedAttributes ?? "");
  add("GET", "/Groups", "SCIM: list groups", async ({ client, query, base }) =>
    ok(rendered(await scim.groups(client, query, withMembers(query)), (group) => renderGroup(group, base))),
  );
  add("POST", "/Groups", "SCIM: create a group", async ({ client, body, base }) => ({
    status: 201,
    body: renderGroup(await scim.createGroup(client, body), base),
  }));
  add("GET", "/Groups/:id", "SCIM: get a group", async ({ client, id, query, base }) =>
    ok(renderGroup(await scim.group(client, id, withMembers(query)), base)),
  );
  add("PUT", "/Groups/:id", "SCIM: replace a group", async ({ client, id, body, base }) =>
    ok(renderGroup(await scim.replaceGroup(client, id, body), base)),
  );
  add("PATCH", "/Groups/:id", "SCIM: change a group", async ({ client, id, body }) => {
    await scim.patchGroup(client, id, body);
    return { status: 204 };
  });
  add("DELETE", "/Groups/:id", "SCIM: delete a group", async ({ client, id }) => {
    await scim.removeGroup(client, id);
    return { status: 204 };
  });
}

const ok = (body: object): Reply => ({ status: 200, body });

function send(reply: FastifyReply, { status, body }: Reply): FastifyReply {
  reply.code(status).header("cache-control", "no-store");
  if (body === undefined) return reply.send();
  return reply.type("application/scim+json; charset=utf-8").serializer(String).send(JSON.stringify(body));
}

/** A repeated parameter counts once. */
function queryOf({ query }: FastifyRequest): Asked["query"] {
  const given = Object.entries(query as Record<string, unknown>);
  return Object.fromEntries(given.filter((pair): pair is [string, string] => typeof pair[1] === "string"));
}

const rendered = <Resource>({ total, startIndex, resources }: Listed<Resource>, render: (one: Resource) => object) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
  totalResults: total,
  startIndex,
  itemsPerPage: resources.length,
  Resources: resources.map(render),
});

const metaOf = (type: "User" | "Group", one: ScimUser | ScimGroup, base: string) => ({
  resourceType: type,
  created: new Date(one.createdAtMs).toISOString(),
  lastModified: new Date(one.changedAtMs).toISOString(),
  location: `${base}/${type}s/${one.id}`,
});

const renderUser = (user: ScimUser, base: string) => ({
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
  id: user.id,
  ...(user.externalId === null ? {} : { externalId: user.externalId }),
  userName: user.userName,
  name: { givenName: user.givenName, familyName: user.familyName },
  displayName: user.displayName,
  active: user.isActive,
  emails: [{ value: user.email, type: "work", primary: true }],
  groups: user.groups.map(({ id, displayName }) => ({ value: id, display: displayName, $ref: `${base}/Groups/${id}` })),
  meta: metaOf("User", user, base),
});

const renderGroup = (group: ScimGroup, base: string) => ({
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"],
  id: group.id,
  ...(group.externalId === null ? {} : { externalId: group.externalId }),
  displayName: group.displayName,
  members: group.members.map(({ id, userName }) => ({ value: id, display: userName, $ref: `${base}/Users/${id}` })),
  meta: metaOf("Group", group, base),
});
