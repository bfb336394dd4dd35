// The registry of one model server: its own numbers and the GenAI server histograms.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Operation } from "./engine.ts";
import type { RuntimeState } from "./runtime-state.ts";

export interface RequestFigures {
  readonly operation: Operation;
  readonly seconds: number;
  readonly firstTokenSeconds: number | undefined;
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  /** Duration of the input audio; undefined without audio. */
  readonly audioMs: number | undefined;
  /** Status of the answer when it failed, e.g. `422`. */
  readonly errorType: string | undefined;
}

const durations = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const firstTokens = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const perToken = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
const batchSizes = [1, 2, 4, 8, 16, 32, 64, 96, 128, 256];

export class RuntimeMetrics {
  readonly registry = new Registry();
  readonly #model: string;
  readonly #duration: Histogram;
  readonly #firstToken: Histogram;
  readonly #perToken: Histogram;
  readonly #tokens: Counter;
  readonly #batch: Histogram;
  readonly #infer: Histogram;
  readonly #queue: Histogram;
  readonly #splits: Counter;
  readonly #audio: Counter;

  constructor(state: RuntimeState) {
    const registers = [this.registry];
    this.#model = state.model;
    collectDefaultMetrics({ register: this.registry });
    const gauge = (name: string, help: string, read: () => number | undefined) =>
      new Gauge({
        name: `stoker_runtime_${name}`,
        help,
        registers,
        collect() {
          this.set(read() ?? 0);
        },
      });
    const counter = (name: string, help: string, ...labelNames: string[]) =>
      new Counter({ name: `stoker_runtime_${name}_total`, help, labelNames, registers });
    const histogram = (name: string, help: string, buckets: number[]) =>
      new Histogram({ name: `stoker_runtime_${name}`, help, buckets, registers });
    const load = () => state.engine?.load();
    gauge("num_requests_running", "Sequences in the batch", () => load()?.running);
    gauge("num_requests_waiting", "Sequences that wait for a slot", () => load()?.waiting);
    new Gauge({
      name: "stoker_runtime_gpu_memory_bytes",
      help: "Memory of the GPUs that this model server sees",
      labelNames: ["state"],
      registers,
      async collect() {
        const memory = await state.engine?.gpuMemory?.();
        if (!memory) return;
        this.set({ state: "used" }, memory.usedBytes);
        this.set({ state: "total" }, memory.totalBytes);
      },
    });
    new Counter({
      name: "stoker_runtime_predicted_tokens_total",
      help: "Tokens guessed by speculative decoding, by what became of them",
      labelNames: ["result"],
      registers,
      collect() {
        const { accepted, refuted } = load()?.predictions ?? { accepted: 0, refuted: 0 };
        this.reset();
        this.inc({ result: "accepted" }, accepted);
        this.inc({ result: "refuted" }, refuted);
      },
    });
    gauge("kv_cache_usage_ratio", "KV cells in use", () => load()?.kvUsageRatio);
    const labelNames = ["operation_name", "provider_name", "request_model", "response_model"].map((n) => `gen_ai_${n}`);
    const server = (name: string, help: string, buckets: number[], extra: string[] = []) =>
      new Histogram({ name: `gen_ai_server_${name}`, help, buckets, labelNames: [...labelNames, ...extra], registers });
    this.#duration = server("request_duration_seconds", "Request until the last byte", durations, ["error_type"]);
    this.#firstToken = server("time_to_first_token_seconds", "Request until the first token", firstTokens);
    this.#perToken = server("time_per_output_token_seconds", "Mean per token after the first", perToken);
    this.#tokens = counter("tokens", "Tokens by kind: prompt (cached ones included), cached, generated", "kind");
    this.#batch = histogram("batch_size", "Sequences per step", batchSizes);
    this.#infer = histogram("infer_seconds", "Time per step", firstTokens);
    this.#queue = histogram("queue_seconds", "Time that an item waited for its batch", firstTokens);
    this.#splits = counter("batch_splits", "Batches that failed as a whole and were run in halves, by cause", "cause");
    this.#audio = counter("audio_seconds", "Seconds of input audio");
    gauge("fallback", "1 while the model runs with less than requested; /health has the reason", () =>
      state.engine?.warnings?.length ? 1 : 0,
    );
  }

  round(size: number, seconds: number): void {
    this.#batch.observe(size);
    this.#infer.observe(seconds);
  }

  queued(seconds: number): void {
    this.#queue.observe(seconds);
  }

  split(cause: "memory" | "failure"): void {
    this.#splits.inc({ cause });
  }

  request(figures: RequestFigures): void {
    const { firstTokenSeconds, outputTokens, seconds, errorType } = figures;
    const labels = {
      gen_ai_operation_name: figures.operation,
      gen_ai_provider_name: "stoker",
      gen_ai_request_model: this.#model,
      gen_ai_response_model: this.#model,
    };
    this.#duration.observe(errorType === undefined ? labels : { ...labels, error_type: errorType }, seconds);
    if (firstTokenSeconds !== undefined) {
      this.#firstToken.observe(labels, firstTokenSeconds);
      if (outputTokens > 1) this.#perToken.observe(labels, (seconds - firstTokenSeconds) / (outputTokens - 1));
    }
    this.#tokens.inc({ kind: "prompt" }, figures.inputTokens);
    this.#tokens.inc({ kind: "cached" }, figures.cachedInputTokens);
    this.#tokens.inc({ kind: "generated" }, outputTokens);
    this.#audio.inc((figures.audioMs ?? 0) / 1000);
  }
}
