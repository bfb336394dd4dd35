// One choice on one sequence: reuse the cached prefix, evaluate the rest of the prompt, then sample token by token.
// Every step is one entry of a round, and between two steps the request may be cancelled.
import type { ControlledEvaluateInputItem, LlamaModel, Token } from "node-llama-cpp";
import {
  type ChoiceSink,
  EngineRefusal,
  type GenerationJob,
  type Piece,
  type TokenLogprob,
} from "../server/text-engine.ts";
import type { RunningUsage } from "../server/usage-log.ts";
import { ChoiceText, PieceDecoder } from "./choice-text.ts";
import type { GrammarGuard } from "./grammar/grammar-guard.ts";
import { UnsupportedConstraint } from "./grammar/grammar-rules.ts";
import type { LlamaSequence } from "./llama-sequence.ts";
import { foundNoToken, maxTopLogprobs } from "./raw-logprobs.ts";
import type { PromptPace, Rounds } from "./rounds.ts";
import { type SamplerState, samplerOptions } from "./sampler-options.ts";

export interface ChoiceContext {
  readonly model: LlamaModel;
  readonly rounds: Rounds;
  readonly pace: PromptPace;
  readonly maxTokens: number;
  /** Undefined: the output is free. */
  readonly guard: GrammarGuard | undefined;
  readonly sampler: Omit<SamplerState, "prompt" | "generated">;
  /** One more token was sampled. */
  readonly onToken: () => void;
}

/** Returns early, without `finish`, when the signal aborts. */
export async function generateChoice(
  context: ChoiceContext,
  job: GenerationJob,
  choice: number,
  sequence: LlamaSequence,
  sink: ChoiceSink,
  usage: RunningUsage,
  signal: AbortSignal,
): Promise<void> {
  const { model, rounds } = context;
  const { prompt } = job;
  // The prompt counts once, however many choices evaluate it.
  const evaluated = (tokens: number) => {
    if (choice === 0) usage.inputTokens = tokens;
  };
  let at = 0;
  if (job.scorePrompt) {
    await sequence.clear();
    const scores = await scorePrompt(sequence, context, job, evaluated, signal);
    if (signal.aborted) return;
    sink.prompt?.(choice, scores);
    at = prompt.length - 1;
  } else {
    at = await sequence.reuse(prompt);
    if (choice === 0) usage.cachedInputTokens = at;
    evaluated(at);
  }
  while (prompt.length - at > context.pace.tokens) {
    if (signal.aborted) return;
    const chunk = prompt.slice(at, at + context.pace.tokens);
    const seconds = await rounds.run(sequence.place, () => timed(() => sequence.evaluate(chunk)));
    context.pace.observe(seconds, rounds.number);
    at += chunk.length;
    evaluated(at);
  }
  if (signal.aborted) return;

  const generated: number[] = [];
  const tail = (tokens: readonly number[], previous: readonly number[]) =>
    model.detokenize(tokens as Token[], job.showsSpecialTokens, previous as Token[]);
  const text = new ChoiceText(new PieceDecoder(tail, prompt), job.stops);
  // Before stop sequences hold text back, so that a long one hides nothing from the guard.
  const written =
    context.guard &&
    new PieceDecoder((tokens, previous) => model.detokenize(tokens as Token[], true, previous as Token[]), prompt);
  const isStopToken = new Set(job.stopTokenIds);
  const top = job.topLogprobs;
  const iterator = sequence.inner.evaluateWithMetadata(
    prompt.slice(at) as Token[],
    { probabilities: (top !== undefined) as true },
    samplerOptions(job.sampling, { ...context.sampler, prompt, generated }, model),
  );
  // Tokens since the last piece that was sent, so that a count by piece misses none.
  let count = 0;
  const send = (piece: Piece) => {
    const tokens = count;
    count = 0;
    return sink.piece(choice, { ...piece, tokens });
  };
  const finish = (reason: "stop" | "length") => {
    const rest = text.end();
    if (rest.text !== "" || rest.logprobs.length > 0) void send(rest);
    sink.finish(choice, reason);
  };
  try {
    // The first step evaluates what is left of the prompt.
    for (;;) {
      const { value, done } = await rounds
        .run(sequence.place, () => iterator.next())
        .catch((error: unknown) => {
          throw job.constraint && foundNoToken(error) ? nothingFits(error) : error;
        });
      evaluated(prompt.length);
      if (done || value === undefined) throw new Error("the model ended its generation without a token");
      const token = value.token as number;
      usage.outputTokens += 1;
      count += 1;
      context.onToken();
      generated.push(token);
      if (signal.aborted) return;
      const isEnd = model.isEogToken(token as Token);
      // After a finished grammar only the end fits: ignore_eos would repeat it for ever.
      if (isStopToken.has(token) || (isEnd && (!job.ignoreEos || job.constraint))) return finish("stop");
      if (written && !isEnd) guarded(() => context.guard?.push(written.push(token)));
      const score = top === undefined ? undefined : scoreOf(token, value.probabilities, top);
      const { piece, stop } = isEnd ? { piece: { text: "", logprobs: [] }, stop: undefined } : text.push(token, score);
      const wait = piece.text !== "" || piece.logprobs.length > 0 ? send(piece) : undefined;
      if (stop !== undefined) return sink.finish(choice, "stop", stop);
      if (generated.length >= context.maxTokens) return finish("length");
      if (wait) await wait;
      if (signal.aborted) return;
    }
  } finally {
    await iterator.return();
  }
}

function guarded(push: () => void): void {
  try {
    push();
  } catch (error) {
    if (!(error instanceof UnsupportedConstraint)) throw error;
    throw new EngineRefusal("constraint", `Unsupported schema: ${error.message}`, {
      cause: error,
    });
  }
}

function nothingFits(cause: unknown): EngineRefusal {
  const words = "Unsupported schema: no output of this model can match it. Use a less strict schema.";
  return new EngineRefusal("constraint", words, { cause });
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1000;
}

/** `logprobs` holds the chosen and the most likely tokens; the chosen one may not be among the latter. */
function scoreOf(token: number, logprobs: ReadonlyMap<number, number> | undefined, top: number) {
  const ranked = [...(logprobs ?? [])]
    .map(([id, logprob]) => ({ token: id, logprob }))
    .sort((a, b) => b.logprob - a.logprob);
  return { token, logprob: logprobs?.get(token), top: ranked.slice(0, Math.min(top, maxTopLogprobs)) };
}

/** Each position costs a pass over the vocabulary: short steps keep other requests and cancelling alive. */
const chunkTokens = 32;

/**
 * Log-probabilities of the prompt's own tokens (`echo` with `logprobs`): logits are computed for every position, so nothing of a
 * cached prefix can be reused. The last token is left for the generation that follows.
 */
async function scorePrompt(
  sequence: LlamaSequence,
  { model, rounds }: ChoiceContext,
  job: GenerationJob,
  onEvaluated: (tokens: number) => void,
  signal: AbortSignal,
): Promise<readonly TokenLogprob[]> {
  const { prompt, topLogprobs: top = 0 } = job;
  const scores: TokenLogprob[] = [{ token: prompt[0] as number, logprob: undefined, top: [], offset: 0 }];
  let text = "";
  for (let at = 0; at < prompt.length - 1; at += chunkTokens) {
    if (signal.aborted) return scores;
    const chunk = prompt.slice(at, Math.min(at + chunkTokens, prompt.length - 1));
    const input = chunk.map((token, i): ControlledEvaluateInputItem => {
      const filter = { tokens: [prompt[at + i + 1] as Token], includeTop: Math.max(1, top) };
      return [token as Token, { generateNext: { logits: { filter }, totalLogitWeight: true } }];
    });
    const answers = await rounds.run(sequence.place, () => sequence.inner.controlledEvaluate(input));
    onEvaluated(at + chunk.length);
    chunk.forEach((token, i) => {
      text += model.detokenize([token as Token], true, prompt.slice(Math.max(0, at + i - 3), at + i) as Token[]);
      const next = answers[i]?.next;
      scores.push({
        ...promptScoreOf(prompt[at + i + 1] as number, next?.logits, next?.totalLogitWeight ?? 1, top),
        offset: text.length,
      });
    });
  }
  return scores;
}

function promptScoreOf(token: number, logits: Map<Token, number> | undefined, weight: number, top: number) {
  const ranked = [...(logits ?? [])].sort(([, a], [, b]) => b - a);
  const offset = (ranked[0]?.[1] ?? 0) + Math.log(weight);
  const all = ranked.map(([id, logit]) => ({ token: id as number, logprob: logit - offset }));
  return { token, logprob: all.find((entry) => entry.token === token)?.logprob, top: all.slice(0, top) };
}
