import { Type } from "typebox";
import type { HostProgress } from "../../fleet/host-operations.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { OperatorFeatures } from "./features.ts";
import { Cordon, Drain, DrainProgress, EndUnknown, Rebalance, UnknownEnded } from "./node-operations-schemas.ts";
import { NodeActed, NodeId } from "./nodes-schemas.ts";

const defaultDeadlineSeconds = 600;

export function addNodeOperationRoutes(endpoints: Endpoints, { hosts }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/nodes/rebalance", {
    summary: "Propose moves that free the most GPUs on one host; nothing is moved",
    answer: Rebalance,
    async handler() {
      const found = await hosts.rebalance();
      return {
        proposal: found
          ? {
              gpu: found.gpu,
              node_id: found.host,
              largest_now: found.largestNow,
              largest_after: found.largestAfter,
              moves: found.moves.map((move) => ({
                instance_id: move.instance,
                deploy_id: move.deployId,
                model_name: move.modelName,
                from: move.from,
                to: move.to,
                gpus: move.gpus,
                gap_seconds: move.gapSeconds,
              })),
            }
          : null,
      };
    },
  });

  admin.post("/v1/admin/nodes/:id/cordon", {
    summary: "Place no new instances on a host; running ones stay",
    params: NodeId,
    body: Cordon,
    answer: NodeActed,
    refusals: [404, 409],
    handler: async ({ params, body, caller, reply }) => ({
      node_id: await hosts.cordon(params.id, actOf(caller, reply, body.note ?? "")),
    }),
  });

  admin.post("/v1/admin/nodes/:id/drain", {
    summary: "Drain a host: its instances are replaced elsewhere before they stop",
    params: NodeId,
    body: Drain,
    answer: DrainProgress,
    refusals: [404],
    async handler({ params, body, caller, reply }) {
      const deadlineMs = (body.deadline_seconds ?? defaultDeadlineSeconds) * 1000;
      const id = await hosts.drain(params.id, deadlineMs, actOf(caller, reply, body.note ?? ""));
      return progressOf(await hosts.progress(id));
    },
  });

  admin.get("/v1/admin/nodes/:id/drain", {
    summary: "Get the progress of a drain",
    params: NodeId,
    answer: DrainProgress,
    refusals: [404],
    handler: async ({ params }) => progressOf(await hosts.progress(params.id)),
  });

  admin.post("/v1/admin/nodes/:id/end-unknown", {
    summary: "Stop instances on a host that belong to no deployment",
    params: NodeId,
    bodyLimitBytes: mediumBodyBytes,
    body: EndUnknown,
    answer: UnknownEnded,
    refusals: [404],
    async handler({ params, body, caller, reply }) {
      const act = actOf(caller, reply, body.note ?? "");
      const { host, instances } = await hosts.endUnknown(params.id, body.instance_ids, act);
      return { node_id: host, instance_ids: [...instances] };
    },
  });

  admin.delete("/v1/admin/nodes/:id", {
    summary: "Delete a host that is unreachable and empty; its certificate becomes invalid",
    params: NodeId,
    query: Type.Object({ note: Type.Optional(Type.String({ maxLength: 500 })) }),
    answer: NodeActed,
    refusals: [404, 409],
    handler: async ({ params, query, caller, reply }) => ({
      node_id: await hosts.remove(params.id, actOf(caller, reply, query.note ?? "")),
    }),
  });
}

const progressOf = ({ host, total, left, fixed, inFlight }: HostProgress) => ({
  node_id: host,
  total,
  left,
  fixed,
  in_flight: inFlight,
});
