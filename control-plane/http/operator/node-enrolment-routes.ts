import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import type { OperatorFeatures } from "./features.ts";
import { JoinTokenAnswer, JoinTokenRequest, NodeAct, NodeActed, NodeAdopted, NodeId } from "./nodes-schemas.ts";

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
