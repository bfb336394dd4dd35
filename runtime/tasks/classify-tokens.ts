// Names and the like in a text: tokens of one entity side by side are one result.
// Source of the grouping: the `simple` aggregation of Hugging Face's token classification pipeline.
import { labelsOf } from "../../proto/model-task.ts";
import type { ModelFolder } from "../onnx/model-folder.ts";
import type { TensorValue } from "../onnx/session.ts";
import type { Encoded, Tokenizer } from "../onnx/tokenizer.ts";
import { alignTokens, type Span, sliceOf } from "./align-tokens.ts";
import { nativeTask, requiredText } from "./native-task.ts";
import { rounded, softmax } from "./numbers.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";
import { encodeAll, openTextGraph, type TokenBatch } from "./text-graph.ts";

export async function openTokenClassification(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const graph = await openTextGraph<Float32Array[]>(deps, folder, {
    name: "token classification",
    outputs: [{ name: "logits", types: ["float32"], rank: 3 }],
    read: logitsByToken,
  });
  const { tokenizer } = graph;
  const labels = labelsOf(folder.config);
  return nativeTask(tokenizer.longest, graph.load, async (fields, call) => {
    const input = requiredText(fields, "input");
    const encoded = await encodeAll(tokenizer, [input], "input");
    const [rows = []] = await graph.run(call, encoded);
    const tokens = judged(tokenizer, input, encoded[0] as Encoded, rows, labels);
    return { results: groupEntities(tokens).map((entity) => resultOf(input, entity)) };
  });
}

/** Splits [rows, longest, width] into the rows of each item's tokens, without padding. */
function logitsByToken(output: TensorValue, { items, longest }: TokenBatch): Float32Array[][] {
  const width = output.dims.at(-1) ?? 0;
  const data = output.data as Float32Array;
  return items.map(({ ids }, row) =>
    ids.map((_, at) => {
      const start = (row * longest + at) * width;
      return data.slice(start, start + width);
    }),
  );
}

export interface JudgedToken {
  readonly label: string;
  readonly score: number;
  readonly span: Span;
}

function judged(
  tokenizer: Tokenizer,
  input: string,
  { ids }: Encoded,
  rows: readonly Float32Array[],
  labels: readonly string[],
): JudgedToken[] {
  const own = ids.flatMap((id, at) => (tokenizer.isSpecial(id) && !tokenizer.isUnknown(id) ? [] : [at]));
  const spans = alignTokens(
    input,
    own.map((at) => tokenizer.pieceText(ids[at] as number)),
  );
  return own.map((at, index) => {
    const scores = softmax(rows[at] ?? []);
    const best = scores.reduce((max, score, label) => (score > (scores[max] as number) ? label : max), 0);
    return { label: labels[best] ?? `LABEL_${best}`, score: scores[best] ?? 0, span: spans[index] as Span };
  });
}

/** Groups adjacent tokens of one kind, except at a `B-`, which starts a new entity; `O` is no entity. */
export function groupEntities(tokens: readonly JudgedToken[]): { kind: string; tokens: JudgedToken[] }[] {
  const groups: { kind: string; tokens: JudgedToken[] }[] = [];
  for (const token of tokens) {
    const [, prefix, tag] = /^(?:([BI])-)?(.*)$/s.exec(token.label) ?? [];
    const kind = tag ?? token.label;
    const last = groups.at(-1);
    if (last && last.kind === kind && prefix !== "B") last.tokens.push(token);
    else groups.push({ kind, tokens: [token] });
  }
  return groups.filter(({ kind }) => kind !== "O");
}

function resultOf(input: string, { kind, tokens }: { kind: string; tokens: readonly JudgedToken[] }) {
  const start = tokens[0]?.span.start ?? 0;
  const end = tokens.at(-1)?.span.end ?? start;
  const score = rounded(tokens.reduce((sum, token) => sum + token.score, 0) / tokens.length);
  return { entity_group: kind, score, word: sliceOf(input, start, end), start, end };
}
