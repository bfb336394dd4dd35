import { type Static, Type } from "typebox";
import type { EnrolmentOverview } from "../../fleet/enrolment.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { OperatorFeatures } from "./features.ts";

const JoinTokenRequest = Type.Object(
  {
    pool: Type.Optional(
      Type.String({
        maxLength: 64,
        pattern: "^[\\w.-]*$",
        description: "Label of the host, for filters",
      }),
    ),
    ttl_seconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 604_800, default: 900 })),
    node_id: Type.Optional(
      Type.Union([Type.String({ minLength: 1, maxLength: 253 }), Type.Null()], {
        description: "Id or name of a host that returns after a revocation or the loss of its key. Null: any new host",
      }),
    ),
  },
  { additionalProperties: false },
);

const JoinTokenAnswer = Type.Object({
  token: Type.String({ description: "Shown once: `id.secret.caHash`" }),
  token_id: Type.String(),
  expires_at: Type.String({ format: "date-time" }),
});

const time = (description: string) => Type.String({ format: "date-time", description });
const nullableTime = (description: string) => nullable.string({ description });

const EnrolmentAnswer = Type.Object({
  agent_address: Type.Object(
    {
      host: Type.String({
        description: "Address that this control plane listens on; 0.0.0.0 or ::: all of its addresses",
      }),
      port: Type.Integer({ description: "STOKER_RPC_PORT" }),
      is_local: Type.Boolean({ description: "Only agents on the same machine reach it" }),
    },
    { description: "Port for agents, of `stoker node join --control`" },
  ),
  authority: Type.Object(
    {
      sha256: Type.String({ description: "SHA-256 of its certificate, base64url; the last part of each join token" }),
      expires_at: time("End of its certificate"),
      node_certificate_hours: Type.Number({
        description: "Life of a host's certificate; renewed after two thirds of it",
      }),
    },
    { description: "Certificate authority of the installation: agents verify it by the join token" },
  ),
  tokens: Type.Array(
    Type.Object({
      token_id: Type.String(),
      pool: Type.String(),
      node_id: nullable.string({ description: "Host that it admits; null: any new one" }),
      created_by: Type.String({ description: "uid" }),
      created_at: time("Its creation"),
      expires_at: time("Its end"),
      used_at: nullableTime("null: not used"),
      used_by: nullable.string({ description: "Host that used it" }),
    }),
    { description: "The newest first; expired ones for a week" },
  ),
  nodes: Type.Array(
    Type.Object({
      node_id: Type.String(),
      name: nullable.string({ description: "null: it has a certificate, but never connected" }),
      pool: Type.String(),
      enrolled_at: time("Its last enrolment"),
      certificate_expires_at: time("End of its newest certificate"),
      revoked_at: nullableTime("null: not revoked"),
    }),
    { description: "Hosts that enrolled, the newest first" },
  ),
});

export const NodeId = Type.Object({
  id: Type.String({
    minLength: 1,
    maxLength: 253,
    description: "Id of a host, or its name if unique",
  }),
});

const NodeAct = Type.Object({
  note: Type.Optional(Type.String({ maxLength: 500, description: "Reason; for the audit log" })),
});

export const NodeActed = Type.Object({ node_id: Type.String() });

const NodeAdopted = Type.Object({
  node_id: Type.String(),
  instances: Type.Array(Type.String(), { description: "Running instances that are known again" }),
  left: Type.Array(
    Type.Object({
      instance_id: Type.String(),
      deploy_id: Type.String(),
      why: Type.String({ description: "Reason" }),
    }),
    {
      description: "Running instances that stay unknown: they hold their GPUs until `stoker node end-unknown`",
    },
  ),
});

const defaultTtlSeconds = 900;

export function addNodeEnrolmentRoutes(endpoints: Endpoints, { enrolment, agentAddress }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/nodes/enrolment", {
    summary: "List join tokens and enrolled hosts, with what agents need to join",
    answer: EnrolmentAnswer,
    handler: async () => renderOverview(await enrolment.overview(), agentAddress()),
  });

  admin.post("/v1/admin/nodes/tokens", {
    summary: "Create a token for one host to join",
    needsRecentSignIn: true,
    holdsSecrets: true,
    body: JoinTokenRequest,
    answer: JoinTokenAnswer,
    refusals: [404],
    async handler({ caller, body, reply }) {
      const made = await enrolment.createToken(
        {
          pool: body.pool ?? "",
          ttlMs: (body.ttl_seconds ?? defaultTtlSeconds) * 1000,
          forHost: body.node_id ?? undefined,
        },
        actOf(caller, reply),
      );
      return { token: made.token, token_id: made.id, expires_at: isoTime(made.expiresAtMs) };
    },
  });

  admin.post("/v1/admin/nodes/:id/revoke", {
    summary: "Revoke a host's certificate: it gets no session and no route",
    params: NodeId,
    body: NodeAct,
    answer: NodeActed,
    refusals: [404, 409],
    async handler({ caller, params, body, reply }) {
      await enrolment.revoke(params.id, { ...actOf(caller, reply), note: body.note ?? "" });
      return { node_id: params.id };
    },
  });

  admin.post("/v1/admin/nodes/:id/adopt", {
    summary: "Adopt a host that applied a newer state than this database holds",
    params: NodeId,
    body: NodeAct,
    answer: NodeAdopted,
    refusals: [404, 409],
    async handler({ caller, params, body, reply }) {
      const adopted = await enrolment.adopt(params.id, { ...actOf(caller, reply), note: body.note ?? "" });
      return {
        node_id: adopted.hostId,
        instances: [...adopted.instances],
        left: adopted.left.map(({ instanceId, deployId, why }) => ({
          instance_id: instanceId,
          deploy_id: deployId,
          why,
        })),
      };
    },
  });
}

const hourMs = 3_600_000;
const orNull = (atMs: number | null) => (atMs === null ? null : isoTime(atMs));
const isLoopback = (host: string) => host === "localhost" || host === "::1" || host.startsWith("127.");

function renderOverview(
  { tokens, hosts, authority }: EnrolmentOverview,
  { host, port }: ReturnType<OperatorFeatures["agentAddress"]>,
): Static<typeof EnrolmentAnswer> {
  return {
    agent_address: { host, port, is_local: isLoopback(host) },
    authority: {
      sha256: authority.hash,
      expires_at: isoTime(authority.notAfterMs),
      node_certificate_hours: authority.lifeMs / hourMs,
    },
    tokens: tokens.map((one) => ({
      token_id: one.id,
      pool: one.pool,
      node_id: one.forHost,
      created_by: one.createdBy,
      created_at: isoTime(one.createdAtMs),
      expires_at: isoTime(one.expiresAtMs),
      used_at: orNull(one.usedAtMs),
      used_by: one.usedBy,
    })),
    nodes: hosts.map((one) => ({
      node_id: one.id,
      name: one.hostname,
      pool: one.pool,
      enrolled_at: isoTime(one.enrolledAtMs),
      certificate_expires_at: isoTime(one.certificateExpiresAtMs),
      revoked_at: orNull(one.revokedAtMs),
    })),
  };
}
