/** Returns the other paths of an endpoint: short forms, and both names of the compatibility API. */
export function aliasesOf(path: string): readonly string[] {
  const known = others[path];
  if (known) return known;
  if (/^\/v1\/agent(\/|$)/.test(path)) return [path.replace("/v1/agent", "/v1/agents")];
  if (/^\/v1\/messages\/batches(\/|$)/.test(path)) return [`/anthropic${path}`];
  if (/^\/v1\/(files|batches|responses|realtime)(\/|$)/.test(path))
    return ["/v1/compat", "/v1/openai"].map((prefix) => path.replace("/v1", prefix));
  const rest = path.startsWith("/v1/compat/") ? path.slice("/v1/compat/".length) : undefined;
  return rest === undefined ? [] : [`/v1/openai/${rest}`, `/v1/${rest}`];
}

const others: Readonly<Record<string, readonly string[]>> = {
  "/v1/completions": ["/v1/compat/completions", "/v1/openai/completions"],
  // Clients of the Messages API set a base URL, to which they add /v1.
  "/v1/messages": ["/anthropic/v1/messages"],
  "/v1/messages/count_tokens": ["/anthropic/v1/messages/count_tokens"],
  "/v1/rerank": ["/v1/compat/rerank", "/v1/openai/rerank", "/v2/rerank"],
  "/v1/score": ["/v1/compat/score", "/v1/openai/score"],
  "/v1/models": ["/v1/compat/models", "/v1/openai/models", "/anthropic/v1/models"],
  "/v1/models/:model_name": [
    "/v1/compat/models/:model_name",
    "/v1/openai/models/:model_name",
    "/anthropic/v1/models/:model_name",
  ],
};
