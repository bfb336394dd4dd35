// Formats besides chat that a model server may speak, and the parts of each and of chat that requests need. An agent reports them of an
// instance; a gateway passes a request on in its own format only where the instance has all that the request needs.

/**
 * The format itself, its streams, and calls of tools; and fields of a chat that only some engines know: `structured_outputs`, running
 * usage in every event (`stream_options.continuous_usage_stats`), and llama.cpp's own names of sampling (`repeat_penalty`).
 */
export const formatSkills = [
  "responses",
  "responses_stream",
  "responses_tools",
  "messages",
  "messages_tools",
  "structured_outputs",
  "continuous_usage",
  "llama_sampling",
] as const;
export type FormatSkill = (typeof formatSkills)[number];

export type ApiFormat = "responses" | "messages";

export const formatPaths = { responses: "/v1/responses", messages: "/v1/messages" } as const;

/**
 * API of an external server: OpenAI's; only the Messages API, with its own headers: version 2023-06-01, or 2026-10-21, which has no
 * sampling parameters; or that of text-embeddings-inference, which serves one model and describes it under /info.
 */
export const serverApis = ["openai", "anthropic", "anthropic-2026-10-21", "tei"] as const;
export type ServerApi = (typeof serverApis)[number];
/** APIs that agents must know. */
export type OwnApi = Exclude<ServerApi, "openai">;
export type MessagesApi = Exclude<OwnApi, "tei">;

const messagesVersions: Readonly<Record<MessagesApi, string>> = {
  anthropic: "2023-06-01",
  "anthropic-2026-10-21": "2026-10-21",
};

export const isMessagesApi = (api: string | undefined): api is MessagesApi =>
  api !== undefined && Object.hasOwn(messagesVersions, api);

export const isOwnApi = (api: string | undefined): api is OwnApi => api === "tei" || isMessagesApi(api);

/** Value of the header `anthropic-version`. */
export const messagesVersionOf = (api: MessagesApi): string => messagesVersions[api];

const isSkill = (name: string): name is FormatSkill => (formatSkills as readonly string[]).includes(name);

/** Those that this version knows. */
export const readFormatSkills = (names: readonly string[]): readonly FormatSkill[] => names.filter(isSkill);
