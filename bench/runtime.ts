// Embeddings through the model server compared with a bare loop over the same graph, in interleaved rounds; with and without
// batches; memory of a loaded model.
import { join } from "node:path";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { readModelFolder } from "../runtime/onnx/model-folder.ts";
import { openTokenizer } from "../runtime/onnx/tokenizer.ts";
import { sharedModel } from "../test/fakes/shared-models.ts";
import type { BenchOptions } from "./figures.ts";
import { median, runLeanLoad } from "./load.ts";
import { residentMiB } from "./process-usage.ts";
import { benchLlm } from "./runtime-llm.ts";
import { say, startServer } from "./runtime-server.ts";

const callers = [1, 8, 32, 64];
const required: Readonly<Record<number, number>> = { 1: 0.75, 32: 0.75, 64: 0.75 };
const secondsPerLoad = 4;
const threads = 2;
const sentences = [
  "The quick brown fox jumps over the lazy dog.",
  "A fast auburn animal leaps above a sleepy hound.",
  "How do I reset my account password?",
  "I forgot my login credentials and need to change them.",
  "The stock market fell sharply on Monday.",
];

export async function benchRuntime(options: BenchOptions): Promise<void> {
  if (options.only === undefined || options.only === "embeddings") await benchEmbeddings(options);
  if (options.only === undefined || options.only === "text") await benchLlm(options);
}

async function benchEmbeddings({ rounds, figures }: BenchOptions): Promise<void> {
  const model = sharedModel("all-MiniLM-L6-v2", "bench -- runtime");
  if (model === undefined) return;
  const batched = await startServer(model, 64);
  const alone = await startServer(model, 1);
  const raw = await openRaw(model);
  const ours = new Map(callers.map((n) => [n, [] as number[]]));
  const floors = new Map(callers.map((n) => [n, new Map<string, number[]>()]));
  const gains: number[] = [];
  try {
    say(`one model server with all-MiniLM-L6-v2 (int8): ${residentMiB(batched.pid).toFixed(0)} MiB resident`);
    for (let round = 1; round <= rounds; round++) {
      for (const n of callers) {
        // Batch sizes that this number of callers can fill.
        const sizes = callers.filter((size) => size <= n);
        const found = floors.get(n) as Map<string, number[]>;
        for (const size of sizes)
          for (const { name, run } of raw) {
            const loop = `${name}, batches of ${size}`;
            found.set(loop, [...(found.get(loop) ?? []), await run(size)]);
          }
        const rate = await rateOf(batched.url, n, "float");
        const coded = await rateOf(batched.url, n, "base64");
        ours.get(n)?.push(rate);
        const bare = [...found].map(([loop, rates]) => `${loop}: ${rates.at(-1)?.toFixed(0)}`).join("; ");
        say(`round ${round}, ${n} callers: ${rate.toFixed(0)}/s (base64 ${coded.toFixed(0)}/s); bare ${bare}`);
      }
      const [together, single] = [await rateOf(batched.url, 32, "float"), await rateOf(alone.url, 32, "float")];
      gains.push(together / single);
      say(`round ${round}, 32 callers: with batches ${together.toFixed(0)}/s, one by one ${single.toFixed(0)}/s`);
    }
  } finally {
    await Promise.all([batched.stop(), alone.stop()]);
  }
  for (const [n, rates] of ours) {
    // Compare with the loop of the best median, because single rounds are noisy.
    const loops = [...(floors.get(n) as Map<string, number[]>)].sort(([, a], [, b]) => median(b) - median(a));
    const [loop, floor] = loops[0] as [string, number[]];
    const min = required[n];
    const values = rates.map((rate, round) => rate / (floor[round] as number));
    const name = `embeddings at ${n} callers / best bare loop`;
    const verdict = figures.judge({ name, values, ...(min === undefined ? {} : { atLeast: min }) });
    say(
      `embeddings at ${n} callers: ${median(rates).toFixed(0)}/s; best bare onnxruntime-node loop (${loop}) ${median(floor).toFixed(0)}/s; ratio ${median(values).toFixed(2)}   ${verdict}`,
    );
  }
  figures.judge({ name: "embeddings at 32 callers, batched / one by one", values: gains, atLeast: 1 });
  say(`dynamic batching / none at 32 callers: ${median(gains).toFixed(2)}`);
}

/** Responses per second, after one second of warm-up. */
async function rateOf(url: string, concurrency: number, encoding: string): Promise<number> {
  const load = {
    port: Number(new URL(url).port),
    path: "/v1/embeddings",
    concurrency,
    // Cycles through the sentences, like the batches of the bare loop.
    body: (i: number) =>
      JSON.stringify({ model: "m", input: sentences[i % sentences.length], encoding_format: encoding }),
  };
  await runLeanLoad({ ...load, seconds: 1 });
  return runLeanLoad({ ...load, seconds: secondsPerLoad });
}

interface BareLoop {
  readonly name: string;
  /** Sentences per second in batches of `size`. */
  run(size: number): Promise<number>;
}

/** Loops with one thread, and with threads that spin or sleep. */
async function openRaw(model: string): Promise<readonly BareLoop[]> {
  const tokenizer = await openTokenizer(await readModelFolder(model));
  const encoded = sentences.map((text) => tokenizer.encode(text).ids);
  const path = join(model, "onnx/model_quantized.onnx");
  const open = (intraOpNumThreads: number, spins: string) =>
    InferenceSession.create(path, {
      intraOpNumThreads,
      interOpNumThreads: 1,
      extra: { session: { intra_op: { allow_spinning: spins } } },
    });
  const sessions = {
    "1 thread": await open(1, "0"),
    [`${threads} threads that sleep`]: await open(threads, "0"),
    [`${threads} threads that spin`]: await open(threads, "1"),
  };
  return Object.entries(sessions).map(([name, session]) => ({
    name,
    run: async (size) => {
      const items = Array.from({ length: size }, (_, i) => encoded[i % encoded.length] as readonly number[]);
      const longest = Math.max(...items.map((ids) => ids.length));
      const dims = [size, longest];
      const ids = new BigInt64Array(size * longest);
      const mask = new BigInt64Array(size * longest);
      items.forEach((item, row) => {
        for (const [at, id] of item.entries()) {
          ids[row * longest + at] = BigInt(id);
          mask[row * longest + at] = 1n;
        }
      });
      const run = () =>
        session.run({
          input_ids: new Tensor("int64", ids, dims),
          attention_mask: new Tensor("int64", mask, dims),
          token_type_ids: new Tensor("int64", new BigInt64Array(size * longest), dims),
        });
      await run();
      const began = performance.now();
      let runs = 0;
      while (performance.now() - began < (secondsPerLoad * 1000) / 3) {
        await run();
        runs += 1;
      }
      return (runs * size * 1000) / (performance.now() - began);
    },
  }));
}
