// POST /v1/completions: body -> job -> answer.
import { answerHead, answerOptions } from "./answer-format.ts";
import { CompletionAnswer } from "./completion-answer.ts";
import { deliver, type Exchange } from "./deliver.ts";
import { type Body, Fields } from "./fields.ts";
import { readDataAddress } from "./image-part.ts";
import { readConstraint } from "./output-constraint.ts";
import { invalid, unusable } from "./request-error.ts";
import { type CommonRequest, commonFields } from "./sampling-fields.ts";
import type { ServedModel } from "./served-model.ts";
import type { Constraint, EngineImage, TextEngine } from "./text-engine.ts";

export async function runCompletion(
  engine: TextEngine,
  model: ServedModel,
  body: Body,
  exchange: Exchange,
): Promise<void> {
  const request = readCompletionRequest(body, engine.takesImages);
  const prompt = await engine.tokenize(request.prompt);
  if (prompt.length === 0) throw invalid("prompt", "prompt must not be empty: this model has no token to begin with");
  const job = {
    ...request,
    prompt,
    scorePrompt: request.echo && request.topLogprobs !== undefined,
    constraint: request.constraint && (await engine.compile(request.constraint, exchange.signal)),
    adapter: model.adapter,
    cacheScope: exchange.cacheScope,
    showsSpecialTokens: false,
  };
  const format = new CompletionAnswer(answerOptions(engine, request), request.echo ? request.prompt : undefined);
  await deliver(engine, job, format, answerHead("cmpl", model.name), request, exchange);
}

interface CompletionRequest extends CommonRequest {
  readonly prompt: string;
  readonly images: readonly EngineImage[];
  readonly constraint: Constraint | undefined;
  readonly echo: boolean;
  /** Alternatives per token; undefined = no logprobs. */
  readonly topLogprobs: number | undefined;
}

/** Throws RequestError. */
export function readCompletionRequest(body: Body, takesImages = false): CompletionRequest {
  const f = new Fields(body);
  const common = commonFields(f);
  if (f.raw("prompt") === undefined) throw invalid("prompt", "prompt is required");
  const prompt = f.raw("prompt");
  if (typeof prompt !== "string") throw invalid("prompt", "prompt must be one string; lists are not supported");
  const images = readImages(f.object("data")?.["image"] ?? [], takesImages);
  return {
    ...common,
    prompt,
    images,
    constraint: readConstraint(body),
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
