// Formats besides chat that a model server may speak, and the parts of each and of chat that requests need. An agent reports them of an
// instance; a gateway passes a request on in its own format only where the instance has all that the request needs.

/**
 * The format itself, its streams, and calls of tools; and fields of a chat that only some engines know: `structured_outputs`, and
 * running usage in every event (`stream_options.continuous_usage_stats`).
 */
export const formatSkills = [
  "responses",
  "responses_stream",
  "responses_tools",
  "messages",
  "messages_tools",
  "structured_outputs",
  "continuous_usage",
] as const;
export type FormatSkill = (typeof formatSkills)[number];

export type ApiFormat = "responses" | "messages";

export const formatPaths = { responses: "/v1/responses", messages: "/v1/messages" } as const;

/** What a server that Stoker does not start speaks: OpenAI's API, or only the Messages API, with its own headers. */
export const serverApis = ["openai", "anthropic"] as const;
export type ServerApi = (typeof serverApis)[number];

const isSkill = (name: string): name is FormatSkill => (formatSkills as readonly string[]).includes(name);

/** Those that this version knows. */
export const readFormatSkills = (names: readonly string[]): readonly FormatSkill[] => names.filter(isSkill);
