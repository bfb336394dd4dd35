import { type Static, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";
import { ModelPricing } from "./model-record-schemas.ts";

export const ModelItem = Type.Object({
  id: Type.String(),
  object: Type.Literal("model"),
  created: Type.Integer({ description: "Unix seconds" }),
  owned_by: Type.String(),
  root: Type.String(),
  parent: nullable.string(),
  metadata: Type.Object({
    description: Type.String(),
    context_length: Type.Integer(),
    max_tokens: Type.Integer(),
    pricing: Type.Unsafe<Record<string, number>>({
      type: "object",
      description: "USD per million tokens or characters, per second of audio, per image",
      properties: {
        input_tokens: { type: "number" },
        output_tokens: { type: "number" },
        cache_read_tokens: { type: "number" },
        input_characters: { type: "number" },
        input_seconds: { type: "number" },
        per_image_unit: { type: "number" },
      },
    }),
    tags: Type.Array(Type.String()),
  }),
});
export type ModelItem = Static<typeof ModelItem>;

export const ModelList = Type.Object({ object: Type.Literal("list"), data: Type.Array(ModelItem) });
export type ModelList = Static<typeof ModelList>;

/** A model as clients of the Messages API list it. Members that are always null describe models of other servers. */
export const MessagesModel = Type.Object({
  type: Type.Literal("model"),
  id: Type.String(),
  display_name: Type.String(),
  created_at: Type.String({ description: "RFC 3339" }),
  max_input_tokens: nullable.integer({ description: "Context length; null: unknown" }),
  max_tokens: nullable.integer(),
  lifecycle: Type.String({ enum: ["active", "deprecated"] }),
  deprecated_at: nullable.string({ description: "RFC 3339" }),
  retires_at: nullable.string({ description: "RFC 3339" }),
  capabilities: Type.Null(),
  line: Type.Null(),
});
export type MessagesModel = Static<typeof MessagesModel>;

export const MessagesModelList = Type.Object({
  data: Type.Array(MessagesModel),
  has_more: Type.Boolean(),
  first_id: nullable.string(),
  last_id: nullable.string(),
});
export type MessagesModelList = Static<typeof MessagesModelList>;

/** Only for clients of the Messages API; others receive the whole list. */
export const ModelPage = Type.Object({
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, default: 20, description: "With `anthropic-version`" }),
  ),
  after_id: Type.Optional(Type.String({ maxLength: 256, description: "With `anthropic-version`" })),
  before_id: Type.Optional(Type.String({ maxLength: 256, description: "With `anthropic-version`" })),
});
export type ModelPage = Static<typeof ModelPage>;

export const ModelSummaries = Type.Array(
  Type.Object({
    model_name: Type.String(),
    type: Type.String(),
    reported_type: Type.String(),
    description: Type.String(),
    cover_img_url: Type.String(),
    tags: Type.Array(Type.String()),
    pricing: ModelPricing,
    max_tokens: Type.Integer(),
    replaced_by: Type.String(),
    deprecated: Type.Integer({ description: "Unix seconds; 0: not deprecated" }),
    quantization: Type.String(),
    mmlu: Type.Number(),
    expected: Type.String(),
    private: Type.Integer(),
    is_partner: Type.Boolean(),
  }),
);
export type ModelSummaries = Static<typeof ModelSummaries>;

/** Maximum price of an image in the price book. */
export const maxImageUsd = 1_000;
const price = (description: string, maximum = 1_000_000) => Type.Number({ minimum: 0, maximum, description });

export const OfferRequest = Type.Object({
  deploy_id: Type.String(),
  description: Type.Optional(Type.String({ maxLength: 4000 })),
  pricing: Type.Object({
    input: price("USD per million prompt tokens"),
    cached_input: Type.Optional(price("USD per million cached prompt tokens; default: as input")),
    output: price("USD per million generated tokens"),
    characters: Type.Optional(price("USD per million characters spoken")),
    audio: Type.Optional(price("USD per 1000 seconds of input audio")),
    image: Type.Optional(price("USD per image", maxImageUsd)),
    image_steps: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 1_000,
        description:
          "Steps of a 1024 x 1024 image at that price; other images cost in proportion. 0: all images cost the same",
      }),
    ),
  }),
});

export const OfferAnswer = Type.Object({
  model_name: Type.String(),
  deploy_id: Type.String(),
  description: Type.String(),
  price_version: Type.Integer(),
  pricing: Type.Object({
    input: Type.Number(),
    cached_input: Type.Number(),
    output: Type.Number(),
    characters: Type.Optional(Type.Number()),
    audio: Type.Optional(Type.Number()),
    image: Type.Optional(Type.Number()),
    image_steps: Type.Optional(Type.Integer()),
  }),
});
