// The body of a response as OpenAI defines it, and the response object.
import { type Static, Type } from "typebox";
import { reasoningEfforts } from "../chat-request-schemas.ts";
import { ModelName, nullable } from "../sampling-schemas.ts";
import { tagged } from "../tagged-schemas.ts";

/** Items of the input beyond this are refused; previous responses count too. */
export const maxItems = 10_000;

const string = { type: "string" };
const optionalString = { type: ["string", "null"] };

/** Engines would fetch other URLs from inside the operator's network, so only data: URIs are accepted. */
const Part = tagged(
  "type",
  {
    input_text: { text: string },
    output_text: { text: string },
    // Only in reasoning items.
    reasoning_text: { text: string },
    refusal: { refusal: string },
    input_image: {},
    input_file: {},
    input_audio: {
      input_audio: {
        type: "object",
        required: ["data", "format"],
        properties: { data: string, format: { type: "string", enum: ["wav", "mp3"] } },
      },
    },
  },
  {
    image_url: { type: ["string", "null"], pattern: "^[dD][aA][tT][aA]:" },
    detail: { type: ["string", "null"], enum: ["auto", "low", "high", "original", null] },
    file_id: optionalString,
    file_data: optionalString,
    file_url: optionalString,
    filename: optionalString,
  },
);

/** A kind decides which of the fields it needs: input-messages.ts, which also names the kinds that need a service. */
const Item = {
  type: "object",
  properties: {
    type: { type: "string", description: "Default: message" },
    id: optionalString,
    status: optionalString,
    role: { type: "string", enum: ["user", "assistant", "system", "developer"] },
    content: { anyOf: [{ type: ["string", "null"] }, { type: "array", items: Part }] },
    call_id: { type: "string", minLength: 1 },
    namespace: optionalString,
    name: { type: "string", minLength: 1 },
    arguments: string,
    input: string,
    output: { anyOf: [string, { type: "array", items: Part }] },
    summary: {
      type: ["array", "null"],
      items: {
        type: "object",
        required: ["type", "text"],
        properties: { type: { const: "summary_text" }, text: string },
      },
    },
    encrypted_content: optionalString,
  },
};

const Tool = {
  type: "object",
  required: ["type"],
  properties: {
    type: { type: "string", description: "function, custom or namespace" },
    name: { type: "string", minLength: 1 },
    description: optionalString,
    parameters: { type: ["object", "null"] },
    strict: { type: ["boolean", "null"] },
    tools: {
      type: "array",
      description: "Tools of a namespace",
      items: { type: "object", required: ["type"] },
      maxItems: 1_000,
    },
    format: {
      type: ["object", "null"],
      required: ["type"],
      properties: { type: string, syntax: string, definition: string },
    },
  },
};

const Format = tagged(
  "type",
  {
    text: {},
    json_object: {},
    json_schema: { name: { type: "string", minLength: 1 }, schema: { type: "object" } },
  },
  { description: optionalString, strict: { type: ["boolean", "null"] } },
);

const effort = { type: ["string", "null"], enum: [...reasoningEfforts, null] };
const summary = { type: ["string", "null"], enum: ["auto", "concise", "detailed", null] };

export const includables = [
  "reasoning.encrypted_content",
  "message.output_text.logprobs",
  // Accepted: their tools do not exist, so there is nothing to include.
  "message.input_image.image_url",
  "file_search_call.results",
  "web_search_call.results",
  "web_search_call.action.sources",
  "computer_call_output.output.image_url",
  "code_interpreter_call.outputs",
] as const;

const metadata = nullable.object({
  maxProperties: 16,
  propertyNames: { maxLength: 64 },
  additionalProperties: { type: "string", maxLength: 512 },
});

export const ResponseRequest = Type.Object({
  // An unknown name is 404, not 422.
  model: ModelName,
  input: Type.Optional(
    Type.Unsafe<string | ResponseItem[] | null>({
      anyOf: [{ type: ["string", "null"] }, { type: "array", items: Item, maxItems }],
    }),
  ),
  instructions: Type.Optional(nullable.string()),
  tools: Type.Optional(Type.Unsafe<ResponseTool[] | null>({ type: ["array", "null"], items: Tool, maxItems: 1_000 })),
  tool_choice: Type.Optional(
    Type.Unsafe<string | ToolChoice | null>({
      anyOf: [
        { type: ["string", "null"], enum: ["none", "auto", "required", null] },
        {
          type: "object",
          required: ["type"],
          properties: {
            type: string,
            name: { type: "string", minLength: 1 },
            mode: { type: "string", enum: ["auto", "required"] },
            tools: { type: "array", items: { type: "object" } },
          },
        },
      ],
    }),
  ),
  parallel_tool_calls: Type.Optional(nullable.boolean({ default: true })),
  text: Type.Optional(
    Type.Unsafe<{ readonly format?: TextFormat | null; readonly verbosity?: string | null } | null>({
      type: ["object", "null"],
      properties: {
        format: { anyOf: [Format, { type: "null" }] },
        verbosity: { type: ["string", "null"], enum: ["low", "medium", "high", null] },
      },
    }),
  ),
  reasoning: Type.Optional(
    Type.Unsafe<{
      readonly effort?: string | null;
      readonly summary?: string | null;
      readonly generate_summary?: string | null;
    } | null>({ type: ["object", "null"], properties: { effort, summary, generate_summary: summary } }),
  ),
  include: Type.Optional(
    Type.Unsafe<string[] | null>({ type: ["array", "null"], items: { type: "string", enum: [...includables] } }),
  ),
  previous_response_id: Type.Optional(nullable.string()),
  store: Type.Optional(nullable.boolean({ default: false, description: "Default: false, nothing is stored" })),
  background: Type.Optional(nullable.boolean({ default: false, description: "Requires `store`" })),
  metadata: Type.Optional(metadata),
  truncation: Type.Optional(nullable.string({ enum: ["auto", "disabled", null], default: "disabled" })),
  max_output_tokens: Type.Optional(nullable.integer({ exclusiveMinimum: 0, maximum: 1_000_000 })),
  max_tool_calls: Type.Optional(nullable.integer({ exclusiveMinimum: 0, description: "Limits built-in tools only" })),
  prompt_cache_key: Type.Optional(nullable.string()),
  safety_identifier: Type.Optional(nullable.string()),
  user: Type.Optional(nullable.string()),
  service_tier: Type.Optional(nullable.string()),
  temperature: Type.Optional(nullable.number({ minimum: 0, maximum: 2, default: 1 })),
  top_p: Type.Optional(nullable.number({ exclusiveMinimum: 0, maximum: 1, default: 1 })),
  top_logprobs: Type.Optional(nullable.integer({ minimum: 0, maximum: 20 })),
  stream: Type.Optional(nullable.boolean({ default: false })),
  stream_options: Type.Optional(
    nullable.object({ properties: { include_obfuscation: { type: ["boolean", "null"] } } }),
  ),
  // Features of OpenAI's service; only null is accepted.
  conversation: Type.Optional(Type.Unsafe<unknown>({})),
  prompt: Type.Optional(Type.Unsafe<unknown>({})),
});
export type ResponseRequest = Static<typeof ResponseRequest>;

export interface ResponsePart {
  readonly type:
    | "input_text"
    | "output_text"
    | "reasoning_text"
    | "refusal"
    | "input_image"
    | "input_file"
    | "input_audio";
  readonly text?: string;
  readonly refusal?: string;
  readonly image_url?: string | null;
  readonly detail?: string | null;
  readonly file_data?: string | null;
  readonly filename?: string | null;
  readonly input_audio?: { readonly data: string; readonly format: string };
}

interface TextPart {
  readonly type: string;
  readonly text: string;
}

/** An item of the input, or of a response's output. */
export interface ResponseItem {
  readonly type?: string;
  readonly id?: string | null;
  readonly role?: "user" | "assistant" | "system" | "developer";
  readonly content?: string | readonly ResponsePart[] | null;
  readonly call_id?: string;
  readonly namespace?: string | null;
  readonly name?: string;
  readonly arguments?: string;
  readonly input?: string;
  readonly output?: string | readonly ResponsePart[];
  readonly summary?: readonly TextPart[] | null;
  readonly encrypted_content?: string | null;
}

export interface ResponseTool {
  readonly type: string;
  readonly name?: string;
  readonly description?: string | null;
  readonly parameters?: Readonly<Record<string, unknown>> | null;
  readonly strict?: boolean | null;
  readonly tools?: readonly ResponseTool[];
  readonly format?: { readonly type: string; readonly syntax?: string; readonly definition?: string } | null;
}

export interface ToolChoice {
  readonly type: string;
  readonly name?: string;
  readonly mode?: "auto" | "required";
  readonly tools?: readonly { readonly type?: unknown; readonly name?: unknown }[];
}

export interface TextFormat {
  readonly type: "text" | "json_object" | "json_schema";
  readonly name?: string;
  readonly description?: string | null;
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly strict?: boolean | null;
}

/** For the API description. */
export const ResponseAnswer = Type.Object({
  id: Type.String(),
  object: Type.Literal("response"),
  created_at: Type.Integer({ description: "Unix seconds" }),
  status: Type.String({ description: "queued, in_progress, completed, incomplete, failed or cancelled" }),
  model: Type.String(),
  output: Type.Array(Type.Object({ type: Type.String(), id: Type.String() }, { additionalProperties: true })),
  error: nullable.object({ properties: { code: string, message: string } }),
  incomplete_details: nullable.object({ properties: { reason: string } }),
  usage: nullable.object({
    properties: {
      input_tokens: { type: "integer" },
      input_tokens_details: { type: "object", properties: { cached_tokens: { type: "integer" } } },
      output_tokens: { type: "integer" },
      output_tokens_details: { type: "object", properties: { reasoning_tokens: { type: "integer" } } },
      total_tokens: { type: "integer" },
      estimated_cost: { type: "number", description: "USD" },
    },
  }),
});

export const ResponseQuery = Type.Object({
  stream: Type.Optional(Type.Boolean({ description: "Only false is supported" })),
});

export const InputItemsQuery = Type.Object({
  order: Type.Optional(Type.Unsafe<"asc" | "desc">({ type: "string", enum: ["asc", "desc"], default: "desc" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
  after: Type.Optional(Type.String({ maxLength: 256, description: "Id of the last item of the page before" })),
});

export const InputItems = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(Type.Object({ id: Type.String() }, { additionalProperties: true })),
  first_id: nullable.string(),
  last_id: nullable.string(),
  has_more: Type.Boolean(),
});

export const DeletedResponse = Type.Object({
  id: Type.String(),
  object: Type.Literal("response"),
  deleted: Type.Boolean(),
});
