// Text generation of the model server compared with a bare node-llama-cpp loop, llama.cpp's own server and vLLM, in interleaved rounds:
// tokens per second of 1, 4, 8 and 32 streams, and time to first token with a cached prefix.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { getLlama, type LlamaContextSequence, LlamaLogLevel, type Token } from "node-llama-cpp";
import { Pool } from "undici";
import { cpuTextPool } from "../agent/engines/plan-stoker.ts";
import { startLlamaServer, whyNoLlamaServer } from "../test/fakes/llama-server.ts";
import { installedVllm, safetensorsOf, startVllm } from "../test/fakes/vllm-program.ts";
import type { BenchOptions } from "./figures.ts";
import { median } from "./load.ts";
import { residentMiB } from "./process-usage.ts";
import { say, startServer } from "./runtime-server.ts";

const file =
  process.env["STOKER_TEST_MODEL"] ?? join(import.meta.dirname, "../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
const streams = [1, 4, 8, 32];
const required = 0.95;
const tokens = 96;
const contextSize = 1024;
// llama.cpp threads spin while waiting. On shared cores, one thread gives better figures.
const threads = Number(process.env["STOKER_BENCH_THREADS"] ?? 2);
const prefix =
  "The harbour master wrote down every ship that came in that year, and of each he noted the cargo. ".repeat(20);

export async function benchLlm({ rounds, figures }: BenchOptions): Promise<void> {
  if (!existsSync(file)) {
    say(`NOT TESTED: text generation of bench -- runtime: no weights at ${file}`);
    return;
  }
  const max = Math.max(...streams);
  const server = await startServer(file, max, { STOKER_CONTEXT_LENGTH: String(contextSize), ...cpuTextPool });
  const llama = await openLlamaServer(max);
  const vllm = await openVllm(max);
  const bare = await openBare(max);
  const ours = connect(server.url);
  const theirs = llama && connect(llama.origin);
  const vllms = vllm && connect(vllm.origin);
  const contestants: readonly Contestant[] = [
    { name: ourName, rate: (n) => rateOf(ours, n) },
    { name: "bare node-llama-cpp loop", rate: bare.rate, required },
    ...(theirs ? [{ name: "llama.cpp's server", rate: (n: number) => rateOf(theirs, n), required }] : []),
    // The same weights, in 16 bits: it reads no GGUF.
    ...(vllms ? [{ name: "vLLM in bfloat16", rate: (n: number) => rateOf(vllms, n) }] : []),
  ];
  const rates = new Map(streams.map((n) => [n, [] as ReadonlyMap<string, number>[]]));
  const firsts: number[] = [];
  try {
    for (const { rate } of contestants) await rate(1);
    say(`one model server with SmolLM2-135M: ${residentMiB(server.pid).toFixed(0)} MiB resident`);
    if (llama) say(`llama.cpp's server with ${max} slots: ${residentMiB(llama.pid).toFixed(0)} MiB resident`);
    for (let round = 1; round <= rounds; round++) {
      for (const n of streams) {
        const found = new Map<string, number>();
        // Another one first in each round, because the later ones meet a warmer processor.
        for (let i = 0; i < contestants.length; i++) {
          const { name, rate } = contestants[(round + i) % contestants.length] as Contestant;
          found.set(name, await rate(n));
        }
        rates.get(n)?.push(found);
        const text = contestants.map(({ name }) => `${name} ${found.get(name)?.toFixed(1)}`);
        say(`round ${round}, ${n} streams, tokens/s: ${text.join(", ")}`);
      }
      const fresh = await firstTokenMs(ours, `${round}. ${prefix}`);
      const again = await firstTokenMs(ours, `${round}. ${prefix} Then`);
      firsts.push(again / fresh);
      say(
        `round ${round}: first token after ${fresh.toFixed(0)} ms, with a shared prefix after ${again.toFixed(0)} ms`,
      );
    }
  } finally {
    await ours.destroy();
    await theirs?.destroy();
    await vllms?.destroy();
    await server.stop();
    await llama?.stop();
    await vllm?.stop();
    await bare.close();
  }
  for (const [n, all] of rates)
    for (const { name, required: min } of contestants.slice(1)) {
      const values = all.map((found) => (found.get(ourName) ?? 0) / (found.get(name) ?? 0));
      const figure = `tokens/s of ${n} streams / ${name}`;
      const verdict = figures.judge({ name: figure, values, ...(min === undefined ? {} : { atLeast: min }) });
      say(`${figure}: ${median(values).toFixed(3)}   ${verdict}`);
    }
  figures.judge({ name: "time to first token with a shared prefix / without", values: firsts });
  say(`time to first token with a shared prefix / without: ${median(firsts).toFixed(2)}`);
}

interface Contestant {
  readonly name: string;
  /** Tokens per second of that many streams. */
  readonly rate: (n: number) => Promise<number>;
  /** Minimum of our rate divided by its rate; undefined: only reported. */
  readonly required?: number;
}

const ourName = "our runtime";
const connect = (origin: string) => new Pool(origin, { connections: Math.max(...streams) });

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

async function openLlamaServer(slots: number) {
  if (whyNoLlamaServer !== undefined) {
    say(`NOT TESTED: llama.cpp's own server: ${whyNoLlamaServer}`);
    return undefined;
  }
  return startLlamaServer(file, "m", { slots, slotContext: contextSize, threads });
}

async function openVllm(slots: number) {
  if (installedVllm() === undefined) {
    say("NOT TESTED: vLLM: STOKER_VLLM_BIN names no program (docs/operations/engines.md)");
    return undefined;
  }
  return startVllm(await safetensorsOf(file), "m", { slots, slotContext: contextSize, threads });
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
