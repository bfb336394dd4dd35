import { Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

/** A misspelt field would widen the operation, for example from one GPU to the whole host. */
export const closed = { additionalProperties: false } as const;

export const Cordon = Type.Object(
  {
    note: Type.Optional(
      nullable.string({ maxLength: 500, description: "Reason; shown with the host and in the audit log" }),
    ),
  },
  closed,
);

export const Drain = Type.Object(
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

export const DrainProgress = Type.Object({
  node_id: Type.String(),
  total: Type.Integer({ description: "Instances at the start" }),
  left: Type.Integer(),
  fixed: Type.Integer({
    description: "Part of `left`: rented containers and agent instances, which stay on their host",
  }),
  in_flight: Type.Integer({ description: "Running and waiting requests" }),
});

export const EndUnknown = Type.Object(
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

export const UnknownEnded = Type.Object({
  node_id: Type.String(),
  instance_ids: Type.Array(Type.String(), { description: "Instances that the host stops" }),
});

export const Rebalance = Type.Object({
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
