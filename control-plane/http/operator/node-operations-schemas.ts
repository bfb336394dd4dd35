import { Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

/** What is misspelled would act on more than was meant: on the host and not one GPU of it, on all and not those that were named. */
export const closed = { additionalProperties: false } as const;

export const Cordon = Type.Object(
  {
    note: Type.Optional(
      nullable.string({ maxLength: 500, description: "Why; shown beside the host, and in the audit log" }),
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
          "When the host is empty at the latest. What could not be replaced elsewhere takes nothing new for the last 30 s (or half of a shorter time); requests that still run then are cut. 0: at once",
      }),
    ),
    note: Cordon.properties.note,
  },
  closed,
);

export const DrainProgress = Type.Object({
  node_id: Type.String(),
  total: Type.Integer({ description: "Instances that were there when it began" }),
  left: Type.Integer(),
  fixed: Type.Integer({
    description: "Of those left: rented containers and agent instances, which stay on their host",
  }),
  in_flight: Type.Integer({ description: "Requests that run or wait there" }),
});

export const EndUnknown = Type.Object(
  {
    instance_ids: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
        minItems: 1,
        maxItems: 256,
        description: "Of those that no deployment knows; absent: all of them",
      }),
    ),
    note: Cordon.properties.note,
  },
  closed,
);

export const UnknownEnded = Type.Object({
  node_id: Type.String(),
  instance_ids: Type.Array(Type.String(), { description: "What the host was told to end" }),
});

export const Rebalance = Type.Object({
  proposal: Type.Unsafe<unknown>({
    type: ["object", "null"],
    description: "Null: no moves would open a larger hole",
    required: ["gpu", "node_id", "largest_now", "largest_after", "moves"],
    properties: {
      gpu: { type: "string" },
      node_id: { type: "string" },
      largest_now: { type: "integer", description: "Most free GPUs of that type on one host" },
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
            gap_seconds: { type: "number", description: "It starts there before it ends here" },
          },
        },
      },
    },
  }),
});
