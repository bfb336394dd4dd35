import { type Static, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";
import { maxImageUsd } from "../models/models-schemas.ts";
import { Note } from "../operator/operator-schemas.ts";

const kinds = ["model", "gpu", "container"] as const;
export const Kind = Type.Unsafe<(typeof kinds)[number]>({ type: "string", enum: [...kinds] });

const usd = (description: string, maximum = 1e6) =>
  Type.Optional(Type.Number({ minimum: 0, maximum, description: `USD per ${description}` }));

/** USD. Models have a price per unit, GPUs and containers per hour; omitted units are free. */
export const Rates = Type.Object(
  {
    input: usd("million tokens"),
    cached_input: usd("million tokens; default: as input"),
    output: usd("million tokens"),
    characters: usd("million characters"),
    audio: usd("1000 seconds of audio"),
    image: usd("image", maxImageUsd),
    image_steps: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 1_000,
        description:
          "Steps of a 1024 x 1024 image at that price; other images cost in proportion. 0: all images cost the same",
      }),
    ),
    hour: usd("hour of one GPU or container"),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type Rates = Static<typeof Rates>;

const time = (description: string) =>
  nullable.string({ maxLength: 40, description: `Unix seconds, or ISO 8601; ${description}` });

export const NewPrice = Type.Object({
  kind: Kind,
  subject: Type.String({ minLength: 1, maxLength: 256, description: "Public model name, GPU type or container plan" }),
  rates: Rates,
  effective_from: Type.Optional(time("null: now. Must not be in the past")),
  note: Type.Optional(Note),
});

export const Price = Type.Object({
  version: Type.Integer(),
  kind: Kind,
  subject: Type.String(),
  rates: Rates,
  effective_from: Type.String({ description: "ISO 8601" }),
  current: Type.Boolean({ description: "Currently valid" }),
});

const words = (maxLength: number) => nullable.string({ minLength: 1, maxLength });

export const NewDiscount = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, description: "Shown on bills" }),
  text: Type.Optional(nullable.string({ maxLength: 1_000, description: "Shown on bills" })),
  percent: Type.Number({ minimum: 0.01, maximum: 100, description: "In steps of 0.01" }),
  uid: Type.Optional(words(64)),
  model: Type.Optional(words(256)),
  surface: Type.Optional(words(64)),
  effective_from: Type.Optional(time("null: now")),
  effective_to: Type.Optional(time("null: open")),
  note: Type.Optional(Note),
});

export const DiscountBody = Type.Object({
  id: Type.String(),
  name: Type.String(),
  text: Type.String(),
  percent: Type.Number(),
  uid: nullable.string({ description: "null: every account" }),
  model: nullable.string({ description: "null: every model" }),
  surface: nullable.string({ description: "null: every surface" }),
  effective_from: Type.String({ description: "ISO 8601" }),
  effective_to: nullable.string({ description: "ISO 8601, exclusive; null: open" }),
});
