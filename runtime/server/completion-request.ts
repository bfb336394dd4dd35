// Body of POST /v1/completions -> domain. Throws RequestError.
import { type Body, Fields } from "./fields.ts";
import { readDataAddress } from "./image-part.ts";
import { invalid, RequestError, unusable } from "./request-error.ts";
import { type CommonRequest, commonFields } from "./sampling-fields.ts";
import type { EngineImage } from "./text-engine.ts";

export interface CompletionRequest extends CommonRequest {
  readonly prompt: string;
  readonly images: readonly EngineImage[];
  readonly echo: boolean;
  /** Alternatives per token; undefined = no logprobs. */
  readonly topLogprobs: number | undefined;
}

export function readCompletionRequest(body: Body, takesImages = false): CompletionRequest {
  const f = new Fields(body);
  const common = commonFields(f);
  if (f.raw("prompt") === undefined) throw invalid("prompt", "prompt is required");
  const prompt = f.raw("prompt");
  if (typeof prompt !== "string") throw invalid("prompt", "prompt must be one string; lists are not supported");
  const images = readImages(f.object("data")?.["image"] ?? [], takesImages);
  const type = f.object("response_format")?.["type"] ?? "text";
  if (type !== "text")
    throw invalid(
      "response_format",
      'response_format.type must be "text" here; use chat completions for other formats',
    );
  return {
    ...common,
    prompt,
    images,
    echo: f.boolean("echo") ?? false,
    topLogprobs: f.integer("logprobs", { min: 0, max: 20 }),
  };
}

function readImages(list: unknown, takesImages: boolean): readonly EngineImage[] {
  if (Array.isArray(list) && list.length === 0) return [];
  if (!takesImages)
    throw unusable("data.image", "data.image: this model takes no images; leave it out, or use a model that does");
  if (!Array.isArray(list)) throw invalid("data.image", "data.image must be a list of data: addresses");
  return list.map((url, i) => readDataAddress(url, `data.image.${i}`));
}
