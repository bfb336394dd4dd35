// Workload identities: programs exchange a token of their platform for a key that lives for minutes.
import { Type } from "typebox";
import type { MemberId, ProjectId } from "../../../proto/ids.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { type KeyRole, keyRoles } from "../../accounts/key-rules.ts";
import { guarded } from "../../accounts/permissions.ts";
import type { WorkloadIdentity } from "../../identity/store.ts";
import type { AccountFeatures } from "../accounts/features.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { IdentityFeatures } from "./features.ts";

const text = (maxLength: number, description?: string) =>
  Type.String({ minLength: 1, maxLength, pattern: "^[^\\u0000]*$", ...(description ? { description } : {}) });

const rule = {
  name: Type.String({
    maxLength: 64,
    pattern: "^[a-zA-Z0-9_-]{1,64}$",
    description: "Names of its keys begin with it",
  }),
  issuer: Type.String({
    maxLength: 512,
    pattern: "^https?://[!-~]+$",
    description: "The token's claim `iss`, whose metadata names its keys",
  }),
  audience: text(512, "A value of the token's claim `aud`"),
  subject: text(512, "The token's claim `sub`; `*` stands for any characters, but not at the beginning"),
  claims: Type.Record(text(128), text(512), {
    maxProperties: 10,
    description: "Further claims and the values that they must have",
  }),
  role: Type.Unsafe<KeyRole>({ type: "string", enum: [...keyRoles], description: "Role of its keys" }),
  allowed_models: Type.Unsafe<string[] | null>({
    type: ["array", "null"],
    maxItems: 200,
    items: { type: "string", minLength: 1, maxLength: 256, pattern: "^[^\\u0000]*$" },
    description: "Models of its keys; null: any",
  }),
  life_seconds: Type.Integer({ minimum: 60, maximum: 3600, description: "Life of its keys" }),
};

const Workload = Type.Object({
  id: Type.String(),
  ...rule,
  member_id: nullable.string({ description: "For whom its keys are, in an organization; null: the account itself" }),
  project_id: nullable.string({ description: "Project of its keys; null: the first of the member's, or none" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  last_used_at: nullable.integer({ description: "Unix seconds" }),
});

export const NewWorkload = Type.Object({
  name: rule.name,
  issuer: rule.issuer,
  audience: rule.audience,
  subject: rule.subject,
  claims: Type.Optional(rule.claims),
  role: Type.Optional(Type.Unsafe<KeyRole>({ ...rule.role, default: "inference" })),
  allowed_models: Type.Optional(rule.allowed_models),
  life_seconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 3600, default: 900 })),
  member_id: Type.Optional(
    nullable.string({
      maxLength: 64,
      description: "A service account whose keys they are; default: the caller's own member",
    }),
  ),
  project_id: Type.Optional(
    nullable.string({ maxLength: 64, description: "Project of its keys; default: the first of the member's, or none" }),
  ),
});

export function addWorkloadRoutes(
  endpoints: Endpoints,
  { workloads, members }: IdentityFeatures & Pick<AccountFeatures, "members">,
): void {
  const own = endpoints.with({ tag: "account", access: "key", right: "manageKeys" });
  const reading = endpoints.with({ tag: "account", access: "key", right: "readAccount" });
  const open = endpoints.with({ tag: "account", access: "public", isAttempt: true, holdsSecrets: true });
  const path = "/v1/workload-identities";

  reading.get(path, {
    summary: "List the workload identities of the account",
    answer: Type.Object({ workload_identities: Type.Array(Workload) }),
    handler: async ({ caller }) => ({ workload_identities: (await workloads.list(caller.account)).map(rendered) }),
  });

  own.post(path, {
    summary: "Let programs with these tokens of a CI or of Kubernetes have short-lived keys of the account",
    needsRecentSignIn: true,
    bodyLimitBytes: 128 * 1024,
    body: NewWorkload,
    answer: Workload,
    refusals: [404, 409],
    async handler({ caller, body, reply }) {
      const { claims = {}, role = "inference", allowed_models: allowedModels = null, life_seconds: life = 900 } = body;
      const { name, issuer, audience, subject } = body;
      const member = await members.holderOf(caller, body.member_id as MemberId | null | undefined);
      const project = (body.project_id ?? null) as ProjectId | null;
      const request = {
        name,
        issuer,
        audience,
        subject,
        claims,
        role,
        allowedModels,
        lifeSeconds: life,
        member,
        project,
      };
      return rendered(
        await workloads.create(caller.account, request, guarded("manageKeys", caller, actOf(caller, reply))),
      );
    },
  });

  reading.get(`${path}/:id`, {
    summary: "Get a workload identity",
    answer: Workload,
    refusals: [404],
    handler: async ({ caller, params }) => rendered(await workloads.get(caller.account, params.id)),
  });

  own.delete(`${path}/:id`, {
    summary: "Delete a workload identity and revoke the keys that it made",
    needsRecentSignIn: true,
    answer: Workload,
    refusals: [404],
    handler: async ({ caller, params, reply }) =>
      rendered(await workloads.remove(caller.account, params.id, guarded("manageKeys", caller, actOf(caller, reply)))),
  });

  open.post("/v1/auth/workload-token", {
    summary: "Exchange a token of a CI or of Kubernetes for a short-lived key",
    bodyLimitBytes: 32 * 1024,
    body: Type.Object({
      workload_identity_id: Type.String({ maxLength: 64 }),
      token: Type.String({ maxLength: 16_384, description: "The platform's JSON Web Token" }),
    }),
    answer: Type.Object({
      api_key: Type.String(),
      key_id: Type.String(),
      role: rule.role,
      expires_at: Type.Integer({ description: "Unix seconds" }),
    }),
    refusals: [401, 429, 502],
    async handler({ body, reply }) {
      const issued = await workloads.exchange(body.workload_identity_id, body.token, reply.request.ip);
      return {
        api_key: issued.key,
        key_id: issued.id,
        role: issued.rule.role,
        expires_at: unixSeconds(issued.expiresAtMs),
      };
    },
  });
}

const rendered = (one: WorkloadIdentity) => ({
  id: one.id,
  name: one.name,
  issuer: one.issuer,
  audience: one.audience,
  subject: one.subject,
  claims: one.claims,
  role: one.role,
  allowed_models: one.allowedModels && [...one.allowedModels],
  life_seconds: one.lifeSeconds,
  member_id: one.member,
  project_id: one.project,
  created_at: unixSeconds(one.createdAtMs),
  last_used_at: one.lastUsedAtMs === null ? null : unixSeconds(one.lastUsedAtMs),
});
