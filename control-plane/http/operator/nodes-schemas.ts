import { type Static, Type } from "typebox";

export const JoinTokenRequest = Type.Object(
  {
    pool: Type.Optional(
      Type.String({
        maxLength: 64,
        pattern: "^[\\w.-]*$",
        description: "Label of the host that joins, to look at hosts by",
      }),
    ),
    ttl_seconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 604_800, default: 900 })),
    node_id: Type.Optional(
      Type.Union([Type.String({ minLength: 1, maxLength: 253 }), Type.Null()], {
        description: "Id or name of the host that it brings back: revoked, or without its key. Null: any new host",
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
    description: "Of a host: its id, or its name where no other has it",
  }),
});

export const NodeAct = Type.Object({
  note: Type.Optional(Type.String({ maxLength: 500, description: "Why; for the audit log" })),
});

export const NodeActed = Type.Object({ node_id: Type.String() });

export const NodeAdopted = Type.Object({
  node_id: Type.String(),
  instances: Type.Array(Type.String(), { description: "What runs there and is known again" }),
  left: Type.Array(
    Type.Object({
      instance_id: Type.String(),
      deploy_id: Type.String(),
      why: Type.String({ description: "Why it is not" }),
    }),
    {
      description: "What runs there and stays unknown: it holds its GPUs until it is ended (`stoker node end-unknown`)",
    },
  ),
});
