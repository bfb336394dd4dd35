import type { Completion } from "../../inference/completion.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { compatPost, type Relays } from "./relay-route.ts";
import { embeddings } from "./tasks/embeddings.ts";
import { EmbeddingsAnswer, EmbeddingsRequest } from "./tasks-schemas.ts";

export function addEmbeddingRoutes(endpoints: Endpoints, relays: Relays): void {
  endpoints.addInference(
    {
      ...compatPost,
      path: "/v1/compat/embeddings",
      summary: "Create embeddings of texts or token ids",
      body: EmbeddingsRequest,
      answer: EmbeddingsAnswer,
    },
    relays.json(readEmbeddings),
  );
}

export function readEmbeddings(fields: Record<string, unknown>): Completion {
  const body = fields as unknown as EmbeddingsRequest;
  return embeddings({
    model: body.model,
    input: body.input,
    encodingFormat: body.encoding_format,
    dimensions: body.dimensions,
    inputType: body.input_type,
    user: body.user,
  });
}
