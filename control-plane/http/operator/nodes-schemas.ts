import { type Static, Type } from "typebox";

export const JoinTokenRequest = Type.Object(
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
export type JoinTokenRequest = Static<typeof JoinTokenRequest>;

export const JoinTokenAnswer = Type.Object({
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

export const NodeAct = Type.Object({
  note: Type.Optional(Type.String({ maxLength: 500, description: "Reason; for the audit log" })),
});

export const NodeActed = Type.Object({ node_id: Type.String() });

export const NodeAdopted = Type.Object({
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
