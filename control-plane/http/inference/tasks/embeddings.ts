import { type Completion, taskCompletion } from "../../../inference/completion.ts";
import { exactly } from "../../../inference/task.ts";
import { bytesPerToken, jsonBody, tokensPerInput } from "./json-task.ts";

type Input = string | readonly (string | number | readonly number[])[];

export interface EmbeddingsParams {
  readonly model: string;
  readonly input: Input;
  readonly encodingFormat?: string | null | undefined;
  readonly dimensions?: number | null | undefined;
  readonly inputType?: string | null | undefined;
  /** Only for native inference. */
  readonly normalize?: boolean | null | undefined;
  readonly user?: string | null | undefined;
}

export function embeddings(request: EmbeddingsParams): Completion {
  const { items, most, likely } = sizeOf(request.input);
  return taskCompletion("embeddings", request.model, {
    enginePath: "/v1/embeddings",
    inputTokensBound: most + items * tokensPerInput,
    inputTokensEstimate: likely,
    units: () => exactly({ items }),
    body: jsonBody({
      input: request.input,
      encoding_format: request.encodingFormat,
      dimensions: request.dimensions,
      input_type: request.inputType,
      normalize: request.normalize,
      user: request.user,
    }),
  });
}

/** Bounds the tokens: a byte-level tokeniser never produces more tokens than bytes. Token ids are counted. */
function sizeOf(input: Input): { items: number; most: number; likely: number } {
  const all = typeof input === "string" ? [input] : input;
  if (typeof all[0] === "number") return { items: 1, most: all.length, likely: all.length };
  let most = 0;
  let likely = 0;
  for (const one of all as readonly (string | readonly number[])[]) {
    const size = typeof one === "string" ? Buffer.byteLength(one) : one.length;
    most += size;
    likely += typeof one === "string" ? Math.ceil(size / bytesPerToken) : size;
  }
  return { items: all.length, most, likely };
}
