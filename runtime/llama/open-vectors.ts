// Embeddings and relevance from GGUF models, one text at a time, in turns by tenant.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { LlamaModel, Token } from "node-llama-cpp";
import { FairTurns } from "../batch/fair-turns.ts";
import type { Engine, TaskCall } from "../server/engine.ts";
import { invalid, type RequestError } from "../server/request-error.ts";
import { embeddingRoutes } from "../tasks/embedding-routes.ts";
import { shaped } from "../tasks/pooling.ts";
import { rerankRoutes } from "../tasks/rerank-routes.ts";
import { type OpenTask, taskEngine } from "../tasks/task-engine.ts";
import type { ModelOptions } from "./model-options.ts";
import { explained, loadWeights } from "./open-model.ts";
import { isTooLongInTurns, widestToken } from "./prompt-bound.ts";

/** Memory grows by the square of a text's length: longer ones only on request. */
const usualContext = 8192;

/** Throws LoadFailure. */
export function openVectors(options: ModelOptions, kind: VectorKind): Promise<Engine> {
  return explained(options, async (onLog) => {
    const { llama, model, isOpened, release } = await loadWeights(options, onLog);
    const contextSize = Math.min(options.contextLength || usualContext, model.trainContextSize);
    // Pooling needs all tokens of a text at once.
    const size = { contextSize, batchSize: contextSize, threads: options.threads };
    const queue = new FairTurns();
    const task = await (kind === "embeddings" ? openEmbedding(model, size, queue) : openRanking(model, size, queue));
    isOpened();
    return taskEngine(task, {
      maxBatchSize: options.sequences,
      provider: llama.gpu === false ? "cpu" : llama.gpu,
      warnings: [],
      close: async () => {
        await task.close?.();
        await release();
      },
    });
  });
}

interface Size {
  readonly contextSize: number;
  readonly batchSize: number;
  readonly threads: number;
}

/** For one text or a pair of them. Throws RequestError for a text that is too long to be worth counting. */
function textCheck(model: LlamaModel, { contextSize }: Size) {
  const bound = {
    maxTokens: contextSize,
    widestToken: widestToken(model.fileInfo.metadata.tokenizer.ggml.tokens),
  };
  return async (texts: readonly string[], name: string) => {
    // One event-loop turn per text: many texts together must not block others either.
    await nextTurn();
    for (const text of texts)
      if (await isTooLongInTurns(text, bound, (piece) => model.tokenize(piece).length))
        throw tooLong(name, `more than ${contextSize - 1}`, contextSize);
  };
}

async function openEmbedding(model: LlamaModel, size: Size, queue: FairTurns): Promise<OpenTask> {
  const context = await model.createEmbeddingContext(size);
  const check = textCheck(model, size);
  const vocabulary = [...model.iterateAllTokens()].length;
  return {
    contextLength: size.contextSize,
    load: () => queue,
    routes: embeddingRoutes(async (request, call) => {
      const inputs: { readonly tokens: Token[]; readonly length: number }[] = [];
      for (const [i, input] of request.inputs.entries()) {
        const name = `${request.field}[${i}]`;
        if (typeof input === "string") await check([input], name);
        else request.checkTokens(input, vocabulary);
        const tokens = typeof input === "string" ? model.tokenize(input) : ([...input] as Token[]);
        inputs.push(checked({ tokens, length: context.calculateInputLength(tokens) }, size.contextSize, name));
      }
      count(call, inputs);
      const found: Float32Array[] = [];
      for (const { tokens, length } of inputs) {
        const { vector } = await queue.run(() => context.getEmbeddingFor(tokens), call.signal, length);
        found.push(Float32Array.from(vector));
      }
      call.onFirstToken();
      return found.map((vector) => shaped(vector, request, true));
    }),
    close: () => context.dispose(),
  };
}

async function openRanking(model: LlamaModel, size: Size, queue: FairTurns): Promise<OpenTask> {
  const context = await model.createRankingContext(size);
  const check = textCheck(model, size);
  // BERT ends a pair with its separator. It has no token for the end of a text, which is all that the library adds.
  const { eos, sep } = model.tokens;
  const end = eos === null && sep !== null ? [sep] : [];
  return {
    contextLength: size.contextSize,
    load: () => queue,
    routes: rerankRoutes(async (pairs, field, call) => {
      const inputs: { readonly query: string; readonly document: Token[]; readonly length: number }[] = [];
      for (const [i, pair] of pairs.entries()) {
        const name = `${field}[${i}]`;
        await check(pair, name);
        const [query, text] = pair;
        const document = [...model.tokenize(text, false, "trimLeadingSpace"), ...end];
        const length = context.calculateInputLength(query, document);
        inputs.push(checked({ query, document, length }, size.contextSize, name));
      }
      count(call, inputs);
      const scores: number[] = [];
      for (const { query, document, length } of inputs)
        scores.push(await queue.run(() => context.rank(query, document), call.signal, length));
      return scores;
    }),
    close: () => context.dispose(),
  };
}

function checked<I extends { readonly length: number }>(input: I, limit: number, name: string): I {
  if (input.length >= limit) throw tooLong(name, input.length, limit);
  return input;
}

function tooLong(name: string, count: number | string, limit: number): RequestError {
  return invalid(name, `${name} has ${count} tokens, and this model takes ${limit - 1}; shorten it`);
}

function count(call: TaskCall, inputs: readonly { readonly length: number }[]): void {
  call.usage.inputTokens = inputs.reduce((sum, { length }) => sum + length, 0);
  call.usage.units = { items: inputs.length };
}

export type VectorKind = "embeddings" | "reranker";

const [poolingNone, poolingRank] = [0, 4];

/** Detects a model of vectors or scores. `task`: of the deployment; empty: by the file. Undefined: it generates text. */
export function vectorKind(task: string, architecture: string, pooling: number | undefined): VectorKind | undefined {
  if (task === "embeddings" || task === "reranker") return task;
  if (pooling === poolingRank) return "reranker";
  const isEncoder = /bert|^t5encoder$|gemma-embedding/.test(architecture);
  return isEncoder || (pooling !== undefined && pooling !== poolingNone) ? "embeddings" : undefined;
}
