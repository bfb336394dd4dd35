// Text generation of the model server compared with a bare node-llama-cpp loop, in interleaved rounds: tokens per second of 1, 4
// and 8 streams, and time to first token with a cached prefix.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { getLlama, type LlamaContextSequence, LlamaLogLevel, type Token } from "node-llama-cpp";
import { Pool } from "undici";
import { cpuTextPool } from "../agent/engines/plan-stoker.ts";
import { median } from "./load.ts";
import { residentMiB } from "./process-usage.ts";
import { say, startServer } from "./runtime-server.ts";

const file =
  process.env["STOKER_TEST_MODEL"] ?? join(import.meta.dirname, "../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
const streams = [1, 4, 8];
const required = 0.95;
const tokens = 96;
const contextSize = 1024;
// llama.cpp threads spin while waiting. On shared cores, one thread gives better figures.
const threads = Number(process.env["STOKER_BENCH_THREADS"] ?? 2);
const prefix =
  "The harbour master wrote down every ship that came in that year, and of each he noted the cargo. ".repeat(20);

export async function benchLlm({ rounds }: { readonly rounds: number }): Promise<void> {
  if (!existsSync(file)) {
    say(`NOT TESTED: text generation of bench -- runtime: no weights at ${file}`);
    return;
  }
  const max = Math.max(...streams);
  const server = await startServer(file, max, { STOKER_CONTEXT_LENGTH: String(contextSize), ...cpuTextPool });
  const pool = new Pool(server.url, { connections: max });
  const bare = await openBare(max);
  const ratios = new Map(streams.map((n) => [n, [] as number[]]));
  const firsts: number[] = [];
  try {
    await rateOf(pool, 1);
    await bare.rate(1);
    say(`one model server with SmolLM2-135M: ${residentMiB(server.pid).toFixed(0)} MiB resident`);
    for (let round = 1; round <= rounds; round++) {
      for (const n of streams) {
        // Alternate the order, because the second run meets a warmer processor.
        const isFirst = round % 2 === 1;
        const early = isFirst ? await bare.rate(n) : await rateOf(pool, n);
        const late = isFirst ? await rateOf(pool, n) : await bare.rate(n);
        const [floor, rate] = isFirst ? [early, late] : [late, early];
        ratios.get(n)?.push(rate / floor);
        say(
          `round ${round}, ${n} streams: ${rate.toFixed(1)} tokens/s, bare loop ${floor.toFixed(1)}, ratio ${(rate / floor).toFixed(3)}`,
        );
      }
      const fresh = await firstTokenMs(pool, `${round}. ${prefix}`);
      const again = await firstTokenMs(pool, `${round}. ${prefix} Then`);
      firsts.push(again / fresh);
      say(
        `round ${round}: first token after ${fresh.toFixed(0)} ms, with a shared prefix after ${again.toFixed(0)} ms`,
      );
    }
  } finally {
    await pool.destroy();
    await server.stop();
    await bare.close();
  }
  for (const [n, all] of ratios) {
    const middle = median(all);
    const isMet = middle >= required;
    if (!isMet) process.exitCode = 1;
    say(
      `tokens/s of ${n} streams / bare node-llama-cpp loop: ${middle.toFixed(3)} (required ${required}: ${isMet ? "met" : "MISSED"})`,
    );
  }
  say(`time to first token with a shared prefix / without: ${median(firsts).toFixed(2)}`);
}

const promptOf = (i: number) => `Story number ${i + 1}. Once upon a time there was`;

async function rateOf(pool: Pool, n: number): Promise<number> {
  const began = performance.now();
  const counts = await Promise.all(Array.from({ length: n }, (_, i) => complete(pool, promptOf(i), tokens)));
  return (counts.reduce((sum, { tokens }) => sum + tokens, 0) * 1000) / (performance.now() - began);
}

async function firstTokenMs(pool: Pool, prompt: string): Promise<number> {
  return (await complete(pool, prompt, 1)).firstMs;
}

async function complete(pool: Pool, prompt: string, max: number): Promise<{ tokens: number; firstMs: number }> {
  const began = performance.now();
  const options = { include_usage: true };
  const body = {
    model: "m",
    prompt,
    max_tokens: max,
    temperature: 0,
    ignore_eos: true,
    stream: true,
    stream_options: options,
  };
  const { statusCode, body: answer } = await pool.request({
    method: "POST",
    path: "/v1/completions",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (statusCode !== 200) throw new Error(`the model server answered ${statusCode}: ${await answer.text()}`);
  let firstMs: number | undefined;
  let text = "";
  for await (const chunk of answer) {
    firstMs ??= performance.now() - began;
    text += String(chunk);
  }
  return { tokens: Number(/"completion_tokens":(\d+)/.exec(text)?.[1]), firstMs: firstMs ?? 0 };
}

/** Baseline: the library without a server. */
async function openBare(max: number) {
  const llama = await getLlama({
    gpu: false,
    build: "never",
    skipDownload: true,
    progressLogs: false,
    maxThreads: threads,
    logLevel: LlamaLogLevel.error,
  });
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const context = await model.createContext({
    sequences: max,
    contextSize,
    batchSize: 512,
    threads: { ideal: threads, min: threads },
  });
  const sequences = Array.from({ length: max }, () => context.getSequence());
  return {
    rate: async (n: number) => {
      const began = performance.now();
      const counts = await Promise.all(sequences.slice(0, n).map((sequence, i) => generate(sequence, promptOf(i))));
      return (counts.reduce((sum, count) => sum + count, 0) * 1000) / (performance.now() - began);
    },
    close: () => llama.dispose(),
  };

  async function generate(sequence: LlamaContextSequence, prompt: string): Promise<number> {
    const input = model.tokenize(prompt, true);
    // The server also reuses the cached prompt of an earlier round.
    await sequence.adaptStateToTokens(input.slice(0, -1) as Token[], false);
    let count = 0;
    const options = { temperature: 0, topK: null as unknown as number, topP: 1, yieldEogToken: true };
    for await (const _ of sequence.evaluate(input.slice(sequence.nextTokenIndex), options))
      if (++count >= tokens) break;
    return count;
  }
}
