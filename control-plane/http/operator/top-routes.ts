import { Type } from "typebox";
import { type TopKind, type TopRow, topKinds, topOrders } from "../../oversight/top.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { OperatorFeatures } from "./features.ts";

const TopQuery = Type.Object({
  by: Type.Unsafe<TopKind>({ type: "string", enum: [...topKinds] }),
  order: Type.Optional(
    Type.Unsafe<string>({
      type: "string",
      enum: topOrders,
      description: "Most first. Default: requests; of hosts, which do not count them, gpu_use",
    }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 20 })),
});

const Top = Type.Object({
  by: Type.String(),
  order: Type.String(),
  rows: Type.Array(
    Type.Object({
      id: nullable.string({
        description: "Deployment, uid or host; null: a model without a deployment of its own, such as an adapter",
      }),
      name: Type.String({
        description: "Name under which a model is offered, e-mail address, own name of a deployment, or host name",
      }),
      kind: nullable.string({ description: "model, container or agent_instance; null: not a deployment" }),
      account: Type.Union([Type.Object({ uid: Type.String(), email: Type.String() }), Type.Null()], {
        description: "Owner of the deployment",
      }),
      requests_per_second: nullable.number({ description: "About the last minute; null for hosts" }),
      errors_per_second: nullable.number({ description: "Refused and failed requests; null for hosts" }),
      tokens_per_second: nullable.number({ description: "Output" }),
      gpus_held: Type.Number({ description: "GPUs of its instances" }),
      gpu_use_ratio: nullable.number({ description: "Mean of those GPUs; null: not reported" }),
      running_requests: Type.Number(),
      waiting_requests: Type.Number({ description: "In queues of instances" }),
      spend_last_hour_usd: nullable.number({ description: "GPU time included; null for hosts" }),
    }),
  ),
});

export function addTopRoutes(endpoints: Endpoints, { top }: OperatorFeatures): void {
  endpoints.with({ tag: "operator", access: "admin" }).get("/v1/admin/top", {
    summary: "List the models, customers, deployments or hosts that use the most now",
    query: TopQuery,
    answer: Top,
    async handler({ query: { by, order = by === "host" ? "gpu_use" : "requests", limit = 20 } }) {
      return { by, order, rows: (await top.read(by, order, limit)).map(rendered) };
    },
  });
}

function rendered(row: TopRow) {
  return {
    id: row.id,
    name: row.name,
    kind: row.kind,
    account: row.owner && { uid: row.owner.account, email: row.owner.email },
    requests_per_second: row.requestsPerSecond,
    errors_per_second: row.errorsPerSecond,
    tokens_per_second: row.tokensPerSecond,
    gpus_held: row.gpusHeld,
    gpu_use_ratio: row.gpuUse,
    running_requests: row.running,
    waiting_requests: row.waiting,
    spend_last_hour_usd: row.spendLastHour === null ? null : Number(row.spendLastHour) / 1e9,
  };
}
