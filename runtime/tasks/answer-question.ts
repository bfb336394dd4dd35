// The part of a text that answers a question. A text longer than the model's input is read in windows that overlap.
// Source of the scores: Hugging Face's question answering pipeline (softmax over each window's own text).
import type { ModelFolder } from "../onnx/model-folder.ts";
import type { TensorValue } from "../onnx/session.ts";
import type { Encoded, Tokenizer } from "../onnx/tokenizer.ts";
import { unusable } from "../server/request-error.ts";
import { alignTokens, type Span, sliceOf } from "./align-tokens.ts";
import { nativeTask, requiredText } from "./native-task.ts";
import { rounded, softmax } from "./numbers.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";
import { openTextGraph, type TokenBatch } from "./text-graph.ts";

const longestAnswer = 15;
/** All of it is tokenised at once, and read window by window. */
const maxCharacters = 100_000;

interface Logits {
  readonly start: Float32Array;
  readonly end: Float32Array;
}

export interface Window {
  readonly encoded: Encoded;
  /** Position of the text's tokens in the window, and the index of the first of them. */
  readonly at: number;
  readonly first: number;
  readonly count: number;
}

export interface Answer {
  readonly score: number;
  /** Tokens of the text, the last included. */
  readonly from: number;
  readonly to: number;
}

export async function openQuestionAnswering(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = await openTextGraph<Logits>(deps, folder, {
    name: "question answering",
    outputs: [{ name: "start_logits", types: ["float32"], rank: 2 }],
    besides: ["end_logits"],
    read: (start, batch: TokenBatch, outputs) => {
      const starts = numberByToken(start, batch);
      const ends = numberByToken(outputs["end_logits"] as TensorValue, batch);
      return starts.map((one, row) => ({ start: one, end: ends[row] as Float32Array }));
    },
  });
  const { tokenizer } = graph;
  return nativeTask(tokenizer.longest, graph.load, async (fields, call) => {
    const question = requiredText(fields, "question");
    const context = requiredText(fields, "context");
    for (const [param, text] of Object.entries({ question, context }))
      if (text.length > maxCharacters)
        throw unusable(
          param,
          `${param} has ${text.length} characters and one request reads ${maxCharacters}; send it in parts`,
          "context_length_exceeded",
        );
    const ids = tokenizer.encodeBare(context);
    const windows = windowsOf(tokenizer, question, context, ids);
    // The overlap of windows is not billed.
    const inputTokens = tokenizer.encodeLong(question, context).ids.length;
    const found = await graph.run(
      call,
      windows.map((window) => window.encoded),
      inputTokens,
    );
    const answers = found.map((logits, index) => bestAnswer(logits, windows[index] as Window));
    const best = answers.reduce((a, b) => (b.score > a.score ? b : a));
    const spans = alignTokens(
      context,
      ids.map((id) => tokenizer.pieceText(id)),
    );
    const { start, end } = wholeWords(spans, best);
    return { answer: sliceOf(context, start, end), score: rounded(best.score), start, end };
  });
}

/** Splits [rows, longest] into one number per token of each item. */
function numberByToken(output: TensorValue, { items, longest }: TokenBatch): Float32Array[] {
  const data = output.data as Float32Array;
  return items.map(({ ids }, row) => data.slice(row * longest, row * longest + ids.length));
}

function windowsOf(tokenizer: Tokenizer, question: string, context: string, ids: readonly number[]): Window[] {
  const whole = tokenizer.encodeLong(question, context);
  const after =
    whole.ids.length - 1 - whole.ids.findLastIndex((id) => !tokenizer.isSpecial(id) || tokenizer.isUnknown(id));
  const before = whole.ids.length - after - ids.length;
  const space = tokenizer.longest - before - after;
  if (space < 16)
    throw unusable(
      "question",
      `question leaves no space for the text: this model takes ${tokenizer.longest} tokens`,
      "context_length_exceeded",
    );
  const windows: Window[] = [];
  const step = Math.max(1, Math.floor(space / 2));
  for (let first = 0; ; first += step) {
    const count = Math.min(space, ids.length - first);
    const inner = (list: readonly number[]) => [
      ...list.slice(0, before),
      ...list.slice(before + first, before + first + count),
      ...list.slice(before + ids.length),
    ];
    windows.push({ encoded: { ids: inner(whole.ids), typeIds: inner(whole.typeIds) }, at: before, first, count });
    if (first + count >= ids.length) return windows;
  }
}

/** The likeliest start and end of at most 15 tokens. */
export function bestAnswer({ start, end }: Logits, { at, first, count }: Window): Answer {
  const starts = softmax(start.subarray(at, at + count));
  const ends = softmax(end.subarray(at, at + count));
  let best: Answer = { score: -1, from: first, to: first };
  for (let from = 0; from < count; from++)
    for (let to = from; to < Math.min(count, from + longestAnswer); to++) {
      const score = (starts[from] as number) * (ends[to] as number);
      if (score > best.score) best = { score, from: first + from, to: first + to };
    }
  return best;
}

/** A token may be part of a word; an answer is whole words. */
function wholeWords(spans: readonly Span[], { from, to }: Answer): { readonly start: number; readonly end: number } {
  let [first, last] = [from, to];
  while (first > 0 && spans[first]?.isContinued) first -= 1;
  while (spans[last + 1]?.isContinued) last += 1;
  return { start: spans[first]?.start ?? 0, end: spans[last]?.end ?? 0 };
}
