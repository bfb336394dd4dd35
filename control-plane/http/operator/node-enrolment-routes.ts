import { Type } from "typebox";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { isoTime } from "../deployments/render-deployment.ts";
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

export function addNodeEnrolmentRoutes(endpoints: Endpoints, { enrolment }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

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
