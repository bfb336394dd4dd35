import { type Static, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

const allowedIps = Type.Unsafe<string[] | null>({
  type: ["array", "null"],
  items: { type: "string", maxLength: 60 },
  description: "Addresses and CIDR blocks the key and the tokens signed with it may be used from; null: anywhere",
});

export const ApiTokenBody = Type.Object({
  token: Type.String({ description: "The secret; masked when read by id or in a list" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  name: Type.String(),
  token_id: Type.String(),
  allowed_ips: allowedIps,
  fragment: Type.String({ description: "Last characters of the secret" }),
  last_used_at: nullable.integer({ description: "Unix seconds, about half a minute late" }),
});
export type ApiTokenBody = Static<typeof ApiTokenBody>;

export const NewApiToken = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, description: "Unique among the account's keys" }),
  allowed_ips: Type.Optional(allowedIps),
});

export const ApiTokenChange = Type.Object({ allowed_ips: allowedIps });

export const NewScopedJwt = Type.Object({
  api_key_name: Type.String({ minLength: 1, description: "Name of the API key that signs; it is charged" }),
  models: Type.Optional(
    nullable.array(Type.String({ minLength: 1 }), { description: "Exact names; default: any model" }),
  ),
  expires_delta: Type.Optional(
    nullable.integer({ exclusiveMinimum: 0, maximum: 31_536_000, description: "Seconds; default: 1 year" }),
  ),
  expires_at: Type.Optional(nullable.integer({ description: "Unix seconds, instead of expires_delta" })),
  spending_limit: Type.Optional(
    nullable.number({ minimum: 0, maximum: 9_000_000_000, description: "USD; default: no limit" }),
  ),
});

export const ScopedJwtState = Type.Object({
  id: Type.String({ description: "Id in `GET /v1/usage/days?by=token`" }),
  expires_at: Type.Integer({ description: "Unix seconds" }),
  models: Type.Optional(Type.Array(Type.String(), { description: "Absent: any model" })),
  spending_limit: Type.Optional(Type.Number({ description: "USD. Absent: no limit" })),
  spending_current: Type.Number({ description: "USD settled so far" }),
});
