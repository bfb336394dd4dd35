import { Type } from "typebox";
import { type DrainedInstance, type DrainOutcome, drainOutcomes } from "../../deployments/drain-preview.ts";
import type { HostProgress, NodeView } from "../../fleet/host-operations.ts";
import type { InstanceLive } from "../../fleet/live.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { OperatorFeatures } from "./features.ts";
import { NodeActed, NodeId } from "./node-enrolment-routes.ts";
import { Customer, closed, NodeDetail, Nodes, Uncordon } from "./node-schemas.ts";
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

const Cordon = Type.Object(
  {
    note: Type.Optional(
      nullable.string({ maxLength: 500, description: "Reason; shown with the host and in the audit log" }),
    ),
  },
  closed,
);

const Drain = Type.Object(
  {
    deadline_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 604_800,
        default: 600,
        description:
          "Time until the host is empty. Instances without a replacement accept no new requests in the last 30 s (or half of a shorter time); requests still running at the end are aborted. 0: at once",
      }),
    ),
    note: Cordon.properties.note,
  },
  closed,
);

const DrainProgress = Type.Object({
  node_id: Type.String(),
  total: Type.Integer({ description: "Instances at the start" }),
  left: Type.Integer(),
  fixed: Type.Integer({
    description: "Part of `left`: rented containers and agent instances, which stay on their host",
  }),
  in_flight: Type.Integer({ description: "Running and waiting requests" }),
});

const outcomes = {
  moves: "a replacement starts on `to` before it stops",
  stops: "its deployment needs no replacement",
  stays: "a container or agent instance, whose data is on this host's disk; it stays until its owner stops it",
  waits: "no other host can take it now (`reasons`); it serves until the deadline and stops then",
};

const DrainPreview = Type.Object({
  node_id: Type.String(),
  name: Type.String(),
  instances: Type.Array(
    Type.Object({
      instance_id: Type.String(),
      deploy_id: Type.String(),
      deploy_name: Type.String(),
      kind: Type.String({ description: "model, container or agent_instance" }),
      account: Customer,
      phase: Type.String(),
      in_flight: Type.Integer({ description: "Running and waiting requests" }),
      gpus: Type.Integer({ description: "GPUs that it uses here" }),
      outcome: Type.Unsafe<DrainOutcome>({
        type: "string",
        enum: [...drainOutcomes],
        description: drainOutcomes.map((outcome) => `${outcome}: ${outcomes[outcome]}`).join(". "),
      }),
      to: Type.Union([Type.Object({ node_id: Type.String(), name: Type.String() }), Type.Null()], {
        description: "Host with capacity for its replacement, if the fleet stays as it is",
      }),
      reasons: Type.Array(Type.Object({ host: Type.String(), why: Type.String() }), {
        description: "Why no other host can take it: by host, or the number of hosts with one reason",
      }),
      serving_elsewhere: Type.Integer({ description: "Serving instances of its deployment on other hosts" }),
    }),
  ),
});

const EndUnknown = Type.Object(
  {
    instance_ids: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
        minItems: 1,
        maxItems: 256,
        description: "Unknown instances; absent: all of them",
      }),
    ),
    note: Cordon.properties.note,
  },
  closed,
);

const UnknownEnded = Type.Object({
  node_id: Type.String(),
  instance_ids: Type.Array(Type.String(), { description: "Instances that the host stops" }),
});

const Rebalance = Type.Object({
  proposal: Type.Unsafe<unknown>({
    type: ["object", "null"],
    description: "Null: no moves would free more GPUs on one host",
    required: ["gpu", "node_id", "largest_now", "largest_after", "moves"],
    properties: {
      gpu: { type: "string" },
      node_id: { type: "string" },
      largest_now: { type: "integer", description: "Maximum free GPUs of that type on one host" },
      largest_after: { type: "integer" },
      moves: {
        type: "array",
        items: {
          type: "object",
          required: ["instance_id", "deploy_id", "model_name", "from", "to", "gpus", "gap_seconds"],
          properties: {
            instance_id: { type: "string" },
            deploy_id: { type: "string" },
            model_name: { type: "string" },
            from: { type: "string" },
            to: { type: "string" },
            gpus: { type: "integer" },
            gap_seconds: { type: "number", description: "Time without a running instance; 0: it starts there first" },
          },
        },
      },
    },
  }),
});

const defaultDeadlineSeconds = 600;

export function addNodeOperationRoutes(endpoints: Endpoints, { hosts, drainPreview }: OperatorFeatures): void {
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

  admin.get("/v1/admin/nodes/:id/drain-preview", {
    summary: "List what a drain would move, and where to, and what it cannot move; nothing is changed",
    params: NodeId,
    answer: DrainPreview,
    refusals: [404],
    async handler({ params }) {
      const node = await hosts.get(params.id);
      return previewOf(node, await drainPreview(node.id));
    },
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

function previewOf({ id, hostname, figures }: NodeView, instances: readonly DrainedInstance[]) {
  const live = new Map(figures?.live.instances.map((one) => [one.instanceId, one]));
  const busy = (one: InstanceLive | undefined) => (one ? one.inFlight + one.waiting : 0);
  return {
    node_id: id,
    name: hostname,
    instances: instances.map((one) => ({
      instance_id: one.id,
      deploy_id: one.deployId,
      deploy_name: one.modelName,
      kind: one.kind,
      account: { uid: one.account, email: one.email },
      phase: one.phase,
      in_flight: busy(live.get(one.id)),
      gpus: one.gpuUuids.length,
      outcome: one.outcome,
      to: one.to ? { node_id: one.to.id, name: one.to.hostname } : null,
      reasons: one.reasons.map(({ host, why }) => ({ host, why })),
      serving_elsewhere: one.servingElsewhere,
    })),
  };
}

const progressOf = ({ host, total, left, fixed, inFlight }: HostProgress) => ({
  node_id: host,
  total,
  left,
  fixed,
  in_flight: inFlight,
});
