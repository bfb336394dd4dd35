// Embeddings on the wire: POST /v1/embeddings in OpenAI's form, POST /v1/infer in the native one.
import type { TaskCall, TaskRoute } from "../server/engine.ts";
import { type EmbeddingsRequest, readEmbeddingsRequest, readNativeEmbeddings } from "./embeddings-request.ts";
import { jsonRoute } from "./json-route.ts";
import { base64Of, numbersText } from "./number-text.ts";

/** `vectors` counts the tokens of its inputs in the call's usage. */
export function embeddingRoutes(
  vectors: (request: EmbeddingsRequest, call: TaskCall) => Promise<readonly Float32Array[]>,
): ReadonlyMap<string, TaskRoute> {
  const compatible = jsonRoute("embeddings", async (fields, call) => {
    const request = readEmbeddingsRequest(fields);
    const texts = (await vectors(request, call)).map(
      request.encoding === "base64" ? (vector) => `"${base64Of(vector)}"` : numbersText,
    );
    const data = texts.map((text, index) => `{"object":"embedding","index":${index},"embedding":${text}}`);
    const tokens = call.usage.inputTokens;
    const usage = `{"prompt_tokens":${tokens},"total_tokens":${tokens}}`;
    return `{"object":"list","data":[${data.join(",")}],"model":${JSON.stringify(call.model)},"usage":${usage}}`;
  });
  const native = jsonRoute("embeddings", async (fields, call) => {
    const texts = (await vectors(readNativeEmbeddings(fields), call)).map(numbersText);
    const tokens = call.usage.inputTokens;
    const usage = `{"prompt_tokens":${tokens},"total_tokens":${tokens}}`;
    return `{"embeddings":[${texts.join(",")}],"input_tokens":${tokens},"usage":${usage}}`;
  });
  return new Map([
    ["/v1/embeddings", compatible],
    ["/v1/infer", native],
  ]);
}
