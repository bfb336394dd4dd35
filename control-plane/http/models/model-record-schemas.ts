// The record of a model, and what its owner may say of it.
import { type Static, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

const number = (description: string) => Type.Optional(Type.Number({ minimum: 0, description }));

/** Its type determines which price it has. */
export const ModelPricing = Type.Object({
  type: Type.String({ description: "uptime, tokens, input_tokens, input_length, input_character_length, image_units" }),
  cents_per_sec: Type.Number({ minimum: 0, description: "Price of one instance for type uptime; else 0" }),
  cents_per_input_token: number("Cents"),
  cents_per_output_token: number("Cents"),
  rate_per_input_token_cached: number("Cents per cached input token"),
  cents_per_input_sec: number("Cents per second of input audio"),
  cents_per_input_chars: number("Cents per character spoken"),
  cents_per_image_unit: number("Cents per image of the default size and steps"),
  default_width: Type.Optional(Type.Integer()),
  default_height: Type.Optional(Type.Integer()),
  default_iterations: Type.Optional(Type.Integer({ description: "Steps; 0: every image costs the same" })),
  short: Type.String(),
  full: Type.String(),
  table: Type.Object({ columns: Type.Array(Type.String()), rows: Type.Array(Type.Array(Type.String())) }),
});
export type ModelPricing = Static<typeof ModelPricing>;

const KeyedUrl = Type.Object({ key: Type.String(), url: Type.String() });

export const FieldInfo = Type.Object({
  name: Type.String(),
  ftype: Type.String({ description: "string, integer, number, boolean, object, array, file or any" }),
  parent: Type.String({ description: "Name of the enclosing field; empty at the top level" }),
  description: Type.String(),
  allowed: Type.Optional(Type.Array(Type.Unsafe<unknown>({}), { description: "Allowed values. Absent: any" })),
  default: Type.Unsafe<unknown>({}),
  examples: Type.Array(Type.Unsafe<unknown>({})),
  minimum: Type.Optional(Type.Number()),
  exclusiveMinimum: Type.Optional(Type.Number()),
  maximum: Type.Optional(Type.Number()),
  exclusiveMaximum: Type.Optional(Type.Number()),
});
export type FieldInfo = Static<typeof FieldInfo>;

const JsonSchema = Type.Unsafe<object>({ type: "object", description: "A JSON Schema" });

export const ModelRecord = Type.Object({
  model_name: Type.String(),
  type: Type.String({ description: "Its task" }),
  reported_type: Type.String(),
  version: Type.String(),
  description: Type.String(),
  mf_description: Type.String(),
  mf_name: Type.String(),
  mf_title: Type.String(),
  tags: Type.Array(Type.String()),
  curl_inv: Type.String({ description: "A shell line that calls it with the key in STOKER_API_KEY" }),
  cmdline_inv: Type.String({ description: "The same by the command line `stoker`" }),
  txt_docs: Type.String(),
  out_example: Type.String({ description: "An answer, as JSON" }),
  out_docs: Type.String(),
  mask_token: Type.String(),
  quantization: Type.String(),
  expected: Type.String(),
  import_time: Type.String({ description: "ISO 8601" }),
  replaced_by: Type.String({ description: "Name of the successor, or empty" }),
  featured: Type.Boolean(),
  public: Type.Boolean(),
  owner: Type.Boolean({ description: "The caller may change it" }),
  is_partner: Type.Boolean(),
  is_custom_deployable: Type.Boolean(),
  deprecated: Type.Integer({ description: "Unix seconds; 0: not deprecated" }),
  sunset: Type.Integer({ description: "Unix seconds of the planned removal; 0: none planned" }),
  mmlu: Type.Number({ description: "Benchmark score; 0: unknown" }),
  max_tokens: Type.Integer({ description: "Maximum tokens of prompt and output together; 0: does not apply" }),
  max_output_tokens: Type.Integer({ description: "Maximum output tokens; 0: does not apply" }),
  meta: Type.Object({
    github_url: Type.String(),
    paper_url: Type.String(),
    license_url: Type.String(),
    cover_image: Type.String(),
    readme: Type.String(),
  }),
  pricing: ModelPricing,
  in_schema: JsonSchema,
  out_schema: JsonSchema,
  in_fields: Type.Array(FieldInfo),
  schemas: Type.Array(KeyedUrl),
  doc_blocks: Type.Array(KeyedUrl),
  short_doc_block: KeyedUrl,
});
export type ModelRecord = Static<typeof ModelRecord>;

export const SchemaRecord = Type.Object({
  variant: KeyedUrl,
  fields_in: Type.Array(FieldInfo),
  schema_in: JsonSchema,
  schema_out: JsonSchema,
  schema_stream: Type.Unsafe<object>({
    type: "object",
    description: "Schema of one stream event; empty: no streaming",
  }),
});

export const ModelVersions = Type.Array(
  Type.Object({
    model_name: Type.String(),
    version: Type.String(),
    uploaded_at: Type.String({ description: "ISO 8601" }),
  }),
);

const url = Type.Optional(
  Type.String({ maxLength: 2048, pattern: "^(https?://[^\\s\\u0000]+)?$", description: "http or https; empty: none" }),
);
const words = (maxLength: number) => Type.Optional(Type.String({ maxLength, pattern: "^[^\\u0000]*$" }));
const time = (description: string) =>
  Type.Optional(
    nullable.integer({ minimum: 0, maximum: 253_402_300_799, description: `Unix seconds; ${description}` }),
  );

export const MetaRequest = Type.Object(
  {
    description: words(4000),
    github_url: url,
    paper_url: url,
    license_url: url,
    cover_image: url,
    readme: words(100_000),
    tags: Type.Optional(Type.Array(Type.String({ maxLength: 64, pattern: "^[\\w.:+ -]+$" }), { maxItems: 32 })),
    deprecated: time("null: not"),
    sunset: time("when it will be gone; null: not known"),
    replaced_by: Type.Optional(nullable.string({ maxLength: 225, pattern: "^[\\w./:-]+$" })),
    featured: Type.Optional(Type.Boolean({ description: "For operators alone" })),
  },
  { description: "What is left out stays as it is" },
);
export type MetaRequest = Static<typeof MetaRequest>;

export const MetaAnswer = Type.Object({ model_name: Type.String() });
export const PublicityRequest = Type.Object({ public: Type.Boolean() });
export const PublicityAnswer = Type.Object({ model_name: Type.String(), public: Type.Boolean() });
export const RemovalQuery = Type.Object({
  version: Type.String({ minLength: 1, maxLength: 128, description: "A version, or ALL" }),
});
export const RemovalAnswer = Type.Object({ model_name: Type.String(), version: Type.String() });
