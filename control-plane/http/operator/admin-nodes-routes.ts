import { Type } from "typebox";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { OperatorFeatures } from "./features.ts";
import { NodeDetail, Nodes, Uncordon } from "./node-schemas.ts";
import { NodeId } from "./nodes-schemas.ts";
import { renderNode, renderNodeDetail } from "./render-nodes.ts";

export function addAdminNodeRoutes(endpoints: Endpoints, { hosts }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/nodes", {
    summary: "List hosts with their GPUs, instances and activity",
    answer: Nodes,
    handler: async () => ({ nodes: (await hosts.list()).map(renderNode) }),
  });

  admin.get("/v1/admin/hosts", {
    summary: "List hosts, under `hosts`",
    answer: Type.Object({ hosts: Nodes.properties.nodes }),
    handler: async () => ({ hosts: (await hosts.list()).map(renderNode) }),
  });

  admin.get("/v1/admin/nodes/:id", {
    summary: "Get a host with its disks and network interfaces",
    params: NodeId,
    answer: NodeDetail,
    refusals: [404],
    handler: async ({ params: { id } }) => renderNodeDetail(await hosts.get(id)),
  });

  admin.post("/v1/admin/nodes/:id/uncordon", {
    summary: "Return a cordoned or drained host, or faulty GPUs, to use",
    params: NodeId,
    body: Uncordon,
    answer: NodeDetail,
    refusals: [404, 409],
    handler: async ({ params: { id }, body, caller, reply }) =>
      renderNodeDetail(await hosts.uncordon(id, body.gpu ?? undefined, actOf(caller, reply, body.note ?? ""))),
  });
}
