// Body of POST /v1/completions -> domain. Throws RequestError.
import { type Body, Fields } from "./fields.ts";
import { invalid, RequestError } from "./request-error.ts";
import { type CommonRequest, commonFields } from "./sampling-fields.ts";

export interface CompletionRequest extends CommonRequest {
  readonly prompt: string;
  readonly echo: boolean;
  /** Alternatives per token; undefined = no logprobs. */
  readonly topLogprobs: number | undefined;
}

export function readCompletionRequest(body: Body): CompletionRequest {
  const f = new Fields(body);
  const common = commonFields(f);
  if (f.raw("prompt") === undefined) throw invalid("prompt", "prompt is required");
  const prompt = f.raw("prompt");
  if (typeof prompt !== "string") throw invalid("prompt", "prompt must be one string; lists are not supported");
  const images = f.object("data")?.["image"];
  if (images !== undefined && images !== null && !(Array.isArray(images) && images.length === 0))
    throw new RequestError(400, "data.image: this model takes no images; leave it out, or use a model that does", {
      param: "data.image",
    });
  const type = f.object("response_format")?.["type"] ?? "text";
  if (type !== "text")
    throw invalid(
      "response_format",
      'response_format.type must be "text" here; use chat completions for other formats',
    );
  return {
    ...common,
    prompt,
    echo: f.boolean("echo") ?? false,
    topLogprobs: f.integer("logprobs", { min: 0, max: 20 }),
  };
}
