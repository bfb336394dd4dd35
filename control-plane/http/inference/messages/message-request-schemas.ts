// Requests of the Messages API. Fields that only affect caching or billing at a server are accepted and ignored.
import { type Static, type TSchema, Type } from "typebox";
import { ModelName, nullable, sampling } from "../sampling-schemas.ts";
import { tagged } from "../tagged-schemas.ts";

export type Source =
  | { readonly type: "base64"; readonly media_type: string; readonly data: string }
  | { readonly type: "text"; readonly data: string }
  | { readonly type: "content"; readonly content: string | readonly Block[] }
  | { readonly type: "url" | "file" };

export type Block =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly source: Source }
  | {
      readonly type: "document";
      readonly source: Source;
      readonly title?: string | null;
      readonly context?: string | null;
    }
  | {
      readonly type: "search_result";
      readonly source: string;
      readonly title: string;
      readonly content: readonly Block[];
    }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: unknown }
  | {
      readonly type: "tool_result";
      readonly tool_use_id: string;
      readonly content?: string | readonly Block[] | null;
      readonly is_error?: boolean | null;
    }
  | { readonly type: "thinking"; readonly thinking: string; readonly signature?: string | null }
  | { readonly type: "redacted_thinking"; readonly data: string };

export interface Message {
  readonly role: "user" | "assistant" | "system";
  readonly content: string | readonly Block[];
}

export type ToolChoice = { readonly disable_parallel_tool_use?: boolean | null } & (
  | { readonly type: "auto" | "any" | "none" }
  | { readonly type: "tool"; readonly name: string }
);

export type Thinking =
  | {
      readonly type: "enabled";
      readonly budget_tokens: number;
      readonly display?: "summarized" | "omitted" | null;
    }
  | { readonly type: "disabled" | "adaptive" | "between_tools"; readonly display?: "summarized" | "omitted" | null };

interface JsonFormat {
  readonly type: "json_schema";
  readonly schema: object;
}

const text = { type: "string" };
const cacheControl = { cache_control: { type: ["object", "null"] } };
const listOf = (items: unknown, bounds: object = {}) => ({ type: "array", items, ...bounds });
const textOr = (items: unknown) => ({ anyOf: [text, listOf(items)] });

const TextBlock = tagged("type", { text: { text } }, cacheControl);

const ImageSource = tagged("type", {
  base64: {
    media_type: { type: "string", enum: ["image/jpeg", "image/png", "image/gif", "image/webp"] },
    data: { type: "string", minLength: 1 },
  },
  url: { url: text },
  file: { file_id: text },
});

const Image = { source: ImageSource };

const DocumentSource = tagged("type", {
  text: { data: text },
  content: { content: textOr(tagged("type", { text: { text }, image: Image }, cacheControl)) },
  base64: { data: text },
  url: { url: text },
  file: { file_id: text },
});

const Document = { source: DocumentSource };
const SearchResult = { source: text, title: text, content: listOf(TextBlock) };
const aboutDocument = { title: { type: ["string", "null"] }, context: { type: ["string", "null"] } };

const ResultBlock = tagged(
  "type",
  { text: { text }, image: Image, document: Document, search_result: SearchResult },
  cacheControl,
  { document: aboutDocument },
);

const Block = tagged(
  "type",
  {
    text: { text },
    image: Image,
    document: Document,
    search_result: SearchResult,
    tool_use: { id: text, name: { type: "string", minLength: 1 }, input: {} },
    tool_result: { tool_use_id: text },
    thinking: { thinking: text },
    redacted_thinking: { data: text },
  },
  cacheControl,
  {
    document: aboutDocument,
    tool_result: {
      content: { anyOf: [{ type: ["string", "null"] }, listOf(ResultBlock)] },
      is_error: { type: ["boolean", "null"] },
    },
    thinking: { signature: { type: ["string", "null"] } },
  },
);

/** The engine's template checks the order of roles. */
const MessageItem = tagged("role", {
  user: { content: textOr(Block) },
  assistant: { content: textOr(Block) },
  system: { content: textOr(TextBlock) },
});

/** `type` distinguishes tools of the client from those that a server would run. */
const Tool = Type.Object({
  type: Type.Optional(nullable.string()),
  name: Type.String({ minLength: 1 }),
  description: Type.Optional(nullable.string()),
  input_schema: Type.Optional(Type.Unsafe<Record<string, unknown>>({ type: "object" })),
  cache_control: Type.Optional(nullable.object()),
});

const orNull = <T>(schema: unknown) => Type.Optional(Type.Unsafe<T | null>({ anyOf: [schema, { type: "null" }] }));

const JsonFormatSchema = tagged("type", { json_schema: { schema: { type: "object" } } });

const efforts = ["low", "medium", "high", "xhigh", "max"] as const;

const prompt = {
  // An unknown name is 404, not 422.
  model: ModelName,
  messages: Type.Unsafe<readonly Message[]>(Type.Array(MessageItem as TSchema, { minItems: 1 })),
  system: orNull<string | readonly Block[]>(textOr(TextBlock)),
  tools: Type.Optional(nullable.array(Tool)),
  tool_choice: orNull<ToolChoice>(
    tagged(
      "type",
      { auto: {}, any: {}, none: {}, tool: { name: { type: "string", minLength: 1 } } },
      { disable_parallel_tool_use: { type: ["boolean", "null"] } },
    ),
  ),
  thinking: orNull<Thinking>(
    tagged(
      "type",
      { enabled: { budget_tokens: { type: "integer", minimum: 1 } }, disabled: {}, adaptive: {}, between_tools: {} },
      { display: { enum: ["summarized", "omitted", null] } },
    ),
  ),
  output_config: Type.Optional(
    nullable.object({
      properties: {
        effort: { type: ["string", "null"], enum: [...efforts, null] },
        format: { anyOf: [JsonFormatSchema, { type: "null" }] },
      },
    }),
  ),
  output_format: orNull<JsonFormat>(JsonFormatSchema),
  cache_control: Type.Optional(nullable.object()),
};

export const MessageRequest = Type.Object({
  ...prompt,
  max_tokens: Type.Integer({ minimum: 1, maximum: 1_000_000 }),
  stop_sequences: orNull<readonly string[]>({ type: "array", items: text, maxItems: 16 }),
  temperature: sampling.temperature,
  top_p: sampling.top_p,
  top_k: sampling.top_k,
  stream: sampling.stream,
  metadata: Type.Optional(nullable.object({ properties: { user_id: { type: ["string", "null"] } } })),
  service_tier: Type.Optional(nullable.string()),
});

/** The fields of a request that are part of its prompt; others are ignored. */
export const TokenCountRequest = Type.Object(prompt);

export type PromptBody = Readonly<Static<typeof TokenCountRequest>>;
export type MessageBody = Readonly<Static<typeof MessageRequest>>;
