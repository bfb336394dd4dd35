// POST /v1/completions: body -> job -> answer.

import { randomBytes } from "node:crypto";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import { tokenNames } from "./answer-format.ts";
import { CompletionAnswer } from "./completion-answer.ts";
import { readCompletionRequest } from "./completion-request.ts";
import { deliver, type Exchange } from "./deliver.ts";
import type { Body } from "./fields.ts";
import { invalid } from "./request-error.ts";
import type { ServedModel } from "./served-model.ts";
import type { TextEngine } from "./text-engine.ts";

export async function runCompletion(
  engine: TextEngine,
  model: ServedModel,
  body: Body,
  exchange: Exchange,
): Promise<void> {
  const request = readCompletionRequest(body, engine.takesImages);
  const prompt = await engine.tokenize(request.prompt);
  if (prompt.length === 0) throw invalid("prompt", "prompt must not be empty: this model has no token to begin with");
  const hasLogprobs = request.topLogprobs !== undefined;
  const format = new CompletionAnswer({
    id: `cmpl-${randomBytes(12).toString("hex")}`,
    created: unixSeconds(Date.now()),
    model: model.name,
    n: request.n,
    echo: request.echo ? request.prompt : undefined,
    hasLogprobs,
    names: tokenNames((token) => engine.tokenText(token), request.tokensAsIds),
  });
  const job = {
    prompt,
    images: request.images,
    choices: request.n,
    maxTokens: request.maxTokens,
    sampling: request.sampling,
    stops: request.stops,
    stopTokenIds: request.stopTokenIds,
    ignoreEos: request.ignoreEos,
    topLogprobs: request.topLogprobs,
    scorePrompt: request.echo && hasLogprobs,
    constraint: undefined,
    adapter: model.adapter,
    cache: request.cache,
    cacheScope: exchange.cacheScope,
    showsSpecialTokens: false,
  };
  await deliver(engine, job, format, request, exchange);
}
