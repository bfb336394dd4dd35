import { type Static, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

const model = Type.String({ minLength: 1, maxLength: 256, pattern: "^[^\\u0000]*$" });

export const AliasRequest = Type.Object({
  targets: Type.Array(
    Type.Object({
      model,
      weight: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 1_000_000,
          default: 1,
          description: "Share of the requests, relative to the other targets. 0: only if the others cannot serve",
        }),
      ),
    }),
    { minItems: 1, maxItems: 16 },
  ),
  fallbacks: Type.Optional(
    Type.Array(model, { maxItems: 8, description: "Models to try in this order if no target can serve" }),
  ),
  sticky: Type.Optional(
    nullable.boolean({ default: false, description: "Keep a conversation at one target while it can serve" }),
  ),
});
export type AliasRequest = Static<typeof AliasRequest>;

export const AliasName = Type.Object({
  "*": Type.String({
    maxLength: 256,
    pattern: "^[\\w./:-]+$",
    description: "The alias; it may hold slashes",
  }),
});

export const AliasAnswer = Type.Object({
  name: Type.String(),
  scope: Type.Unsafe<"account" | "installation">({ type: "string", enum: ["account", "installation"] }),
  targets: Type.Array(Type.Object({ model: Type.String(), weight: Type.Integer() })),
  fallbacks: Type.Array(Type.String()),
  sticky: Type.Boolean(),
  updated_at: Type.String({ description: "ISO 8601" }),
});

export const AliasList = Type.Object({ aliases: Type.Array(AliasAnswer) });
export const AliasRemoval = Type.Object({ name: Type.String(), deleted: Type.Literal(true) });
