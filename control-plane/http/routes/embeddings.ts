import type { Spine } from "../../inference/complete.ts";
import type { Completion } from "../../inference/completion.ts";
import type { Endpoints } from "../endpoint.ts";
import type { RelayFront } from "../relay-front.ts";
import { relayRoute } from "../relay-route.ts";
import { inferenceRefusals } from "../schemas/error-responses.ts";
import { EmbeddingsAnswer, EmbeddingsRequest } from "../schemas/tasks.ts";
import { embeddings } from "../tasks/embeddings.ts";

export function addEmbeddingRoutes(endpoints: Endpoints, spine: Spine, front: RelayFront): void {
  endpoints.addRaw(
    {
      method: "POST",
      tag: "inference",
      access: "inference",
      dialect: "compat",
      refusals: inferenceRefusals,
      path: "/v1/compat/embeddings",
      summary: "Vectors of texts or of token ids",
      body: EmbeddingsRequest,
      answer: EmbeddingsAnswer,
    },
    relayRoute(spine, readEmbeddings, front),
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
