// A graph over tokens, its tokenizer and its batches, for all text tasks.
import { setImmediate as nextTurn } from "node:timers/promises";
import { MicroBatcher } from "../batch/micro-batcher.ts";
import { checkIo, type IoNeed } from "../onnx/check-io.ts";
import { graphOf, type ModelFolder } from "../onnx/model-folder.ts";
import type { NearSession } from "../onnx/near-session.ts";
import { isMemoryFailure, type Session, type TensorValue } from "../onnx/session.ts";
import { type Encoded, openTokenizer, TextTooLong, type Tokenizer } from "../onnx/tokenizer.ts";
import type { TaskCall } from "../server/engine.ts";
import { unusable } from "../server/request-error.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";

/** A batch as the graph saw it: items by row, padded to the longest. */
export interface TokenBatch {
  readonly items: readonly Encoded[];
  readonly longest: number;
}

export interface TextTask<Result> {
  readonly name: string;
  /** The graph's outputs the task can read, the best first. */
  readonly outputs: readonly IoNeed[];
  readonly read: (
    output: TensorValue,
    batch: TokenBatch,
    outputs: Readonly<Record<string, TensorValue>>,
  ) => readonly Result[];
  /** Outputs besides the one that `read` is given. */
  readonly besides?: readonly string[];
}

export interface TextGraph<Result> {
  readonly tokenizer: Tokenizer;
  readonly load: OpenTask["load"];
  /** Results by input, which count in the call's usage. Throws what the first failing input failed with. */
  run(call: TaskCall, inputs: readonly Encoded[], inputTokens?: number): Promise<Result[]>;
}

const integers = ["int64", "int32"];
const tokenInputs: readonly IoNeed[] = ["input_ids", "attention_mask", "token_type_ids", "position_ids"].map(
  (name) => ({
    name,
    types: integers,
    rank: 2,
  }),
);
/** Texts are encoded for so long before others get a turn of the event loop. */
const turnMs = 5;
/** Tokens that a run by itself is worth; measured with MiniLM on a CPU. */
const perRunTokens = 48;
/** A run of so few tokens is over on few threads before more of them have woken up; measured likewise. */
const fewTokens = 24;
/** For so long a run may keep the server's own thread. */
const maxNearMs = 10;
/** Approximate number of tokens. */
const longestNear = "warm ".repeat(fewTokens - 2);

export async function openTextGraph<Result>(
  deps: TaskDeps,
  folder: ModelFolder,
  task: TextTask<Result>,
): Promise<TextGraph<Result>> {
  const graph = graphOf(folder);
  const tokenizer = await openTokenizer(folder);
  const { sessions: lanes, near: third } = await deps.graphs.openLanes(folder, graph);
  const [session] = lanes;
  const needs = { known: tokenInputs, required: ["input_ids"], outputs: task.outputs };
  const output = checkIo(graph, task.name, session, needs);
  const fetched = [output.name, ...(task.besides ?? [])];
  const runOn = async (one: Pick<NearSession, "run">, items: readonly Encoded[]) => {
    const longest = items.reduce((max, { ids }) => Math.max(max, ids.length), 1);
    const outputs = await one.run(feedsOf(session, tokenizer.padId, items, longest), fetched);
    return task.read(outputs[output.name] as TensorValue, { items, longest }, outputs);
  };
  const isOnCpu = session.provider === "cpu";
  const batcher: MicroBatcher<Encoded, Result> = new MicroBatcher({
    maxBatchSize: deps.maxBatchSize,
    latencyBudgetMs: deps.latencyBudgetMs,
    costs: { perRun: perRunTokens, maxTokens: isOnCpu ? 8_192 : 65_536 },
    lengthOf: ({ ids }) => ids.length,
    lanes: {
      count: lanes.length,
      // The first has the most threads, the last the fewest.
      choose: (items, free) => (tokensOf(items) <= fewTokens ? free.at(-1) : free[0]) ?? 0,
    },
    run(items, lane) {
      const isAlone = batcher.running === items.length && tokensOf(items) <= fewTokens;
      return runOn(isAlone && near ? near : (lanes[lane] as Session), items);
    },
    isMemoryFailure,
    observe: deps.observe,
  });
  // The first run of a graph is slow: it allocates, and a GPU compiles.
  const first = [tokenizer.encode("warm up"), tokenizer.encode("warm up with some more words")];
  for (const lane of lanes) await runOn(lane, first);
  const near = third && (await quickEnough(third, () => runOn(third, [tokenizer.encode(longestNear)])));
  return {
    tokenizer,
    load: () => batcher,
    run(call, inputs, inputTokens = tokensOf(inputs)) {
      call.usage.inputTokens = inputTokens;
      call.usage.units = { items: inputs.length };
      return batcher.submit(inputs, call.signal);
    },
  };
}

/** Undefined, and closed: the longest run that it would be given takes too long on this machine. */
async function quickEnough(near: NearSession, run: () => Promise<unknown>): Promise<NearSession | undefined> {
  let bestMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5; i++) {
    const beganMs = performance.now();
    await run();
    bestMs = Math.min(bestMs, performance.now() - beganMs);
  }
  if (bestMs <= maxNearMs) return near;
  await near.close();
  return undefined;
}

function feedsOf(
  session: Session,
  padId: number,
  items: readonly Encoded[],
  longest: number,
): Record<string, TensorValue> {
  const dims = [items.length, longest];
  const size = items.length * longest;
  const filled = (type: string, padding: number, valueAt: (item: Encoded, at: number) => number): TensorValue => {
    if (type === "int32") {
      const data = new Int32Array(size).fill(padding);
      items.forEach((item, row) => {
        for (let at = 0; at < item.ids.length; at++) data[row * longest + at] = valueAt(item, at);
      });
      return { type, data, dims };
    }
    const data = new BigInt64Array(size);
    if (padding !== 0) data.fill(BigInt(padding));
    // Numbers of 32 bits, low half first as on every processor that the library knows: a bigint for each costs more.
    const halves = new Int32Array(data.buffer);
    items.forEach((item, row) => {
      for (let at = 0; at < item.ids.length; at++) halves[2 * (row * longest + at)] = valueAt(item, at);
    });
    return { type, data, dims };
  };
  const feeds: Record<string, TensorValue> = {};
  for (const { name, type } of session.inputs) {
    if (name === "input_ids") feeds[name] = filled(type, padId, (item, at) => item.ids[at] as number);
    else if (name === "attention_mask") feeds[name] = filled(type, 0, () => 1);
    else if (name === "token_type_ids") feeds[name] = filled(type, 0, (item, at) => item.typeIds[at] ?? 0);
    else feeds[name] = filled(type, 0, (_, at) => at);
  }
  return feeds;
}

/** Encodes texts without keeping others waiting. Throws RequestError for one that is too long; `name` is its field. */
export async function encodeAll<Text>(
  tokenizer: Tokenizer,
  texts: readonly Text[],
  name: string,
  encode: (text: Text) => Encoded = (text) => tokenizer.encode(String(text)),
): Promise<Encoded[]> {
  const encoded: Encoded[] = [];
  let turnAt = performance.now();
  for (const [index, text] of texts.entries()) {
    if (performance.now() - turnAt > turnMs) {
      await nextTurn();
      turnAt = performance.now();
    }
    const where = texts.length > 1 ? `${name}[${index}]` : name;
    const tooLong = (count: number | string) =>
      unusable(
        name,
        `${where} has ${count} tokens and this model takes ${tokenizer.longest}; shorten it`,
        "context_length_exceeded",
      );
    let one: Encoded;
    try {
      one = encode(text);
    } catch (error) {
      throw error instanceof TextTooLong ? tooLong(`more than ${tokenizer.longest}`) : error;
    }
    if (one.ids.length > tokenizer.longest) throw tooLong(one.ids.length);
    encoded.push(one);
  }
  return encoded;
}

export const tokensOf = (encoded: readonly Encoded[]) => encoded.reduce((sum, { ids }) => sum + ids.length, 0);

/** Splits [rows, width] into one row per item. */
export function logitRows(output: TensorValue, { items }: TokenBatch): Float32Array[] {
  const width = output.dims.at(-1) ?? 0;
  return items.map((_, row) => (output.data as Float32Array).slice(row * width, (row + 1) * width));
}
