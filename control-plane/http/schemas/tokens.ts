import { type Static, Type } from "typebox";
import { nullable } from "./sampling.ts";

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
  name: Type.String({ minLength: 1, maxLength: 128, description: "Unique among the account's live keys" }),
  allowed_ips: Type.Optional(allowedIps),
});

export const ApiTokenChange = Type.Object({ allowed_ips: allowedIps });
