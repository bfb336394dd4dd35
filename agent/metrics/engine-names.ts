// Metric names that are the same for every engine. Engines use different names and change them between versions; their raw
// names stay on the page.
// Sources: vLLM's and SGLang's metrics documentation. Golden pages: test/fixtures/engine-metrics.

export interface NormalisedName {
  readonly name: string;
  readonly help: string;
  readonly type: "gauge" | "counter";
  /** Raw names, newest first; the first that a page has is taken. `label` picks one series of several. */
  readonly from: readonly { readonly raw: string; readonly label?: readonly [name: string, value: string] }[];
}

export const normalisedNames: readonly NormalisedName[] = [
  {
    name: "stoker_engine_requests_running",
    help: "Sequences in the engine's batch",
    type: "gauge",
    from: [
      { raw: "vllm:num_requests_running" },
      { raw: "sglang:num_running_reqs" },
      { raw: "llamacpp:requests_processing" },
      { raw: "stoker_runtime_num_requests_running" },
    ],
  },
  {
    name: "stoker_engine_requests_waiting",
    help: "Sequences in the engine's own queue",
    type: "gauge",
    from: [
      { raw: "vllm:num_requests_waiting" },
      { raw: "sglang:num_queue_reqs" },
      { raw: "llamacpp:requests_deferred" },
      // text-embeddings-inference.
      { raw: "te_queue_size" },
      { raw: "stoker_runtime_num_requests_waiting" },
    ],
  },
  {
    name: "stoker_engine_requests_waiting_capacity",
    help: "Sequences in the engine's own queue that wait for a slot or for memory",
    type: "gauge",
    // From 0.20.
    from: [{ raw: "vllm:num_requests_waiting_by_reason", label: ["reason", "capacity"] }],
  },
  {
    name: "stoker_engine_requests_waiting_deferred",
    help: "Sequences in the engine's own queue that wait for an adapter or a transfer",
    type: "gauge",
    from: [{ raw: "vllm:num_requests_waiting_by_reason", label: ["reason", "deferred"] }],
  },
  {
    name: "stoker_engine_preemptions_total",
    help: "Sequences that lost their place in the batch for lack of memory",
    type: "counter",
    from: [{ raw: "vllm:num_preemptions_total" }],
  },
  {
    name: "stoker_engine_admission_rejections_total",
    help: "Requests that the engine refused for lack of capacity",
    type: "counter",
    // From 0.32.
    from: [{ raw: "vllm:admission_rejections_total" }],
  },
  {
    name: "stoker_engine_cached_prompt_tokens_total",
    help: "Prompt tokens the engine took from its prefix cache",
    type: "counter",
    // The second is what the first was before 0.16.
    from: [{ raw: "vllm:prompt_tokens_cached_total" }, { raw: "vllm:prefix_cache_hits_total" }],
  },
  {
    name: "stoker_engine_kv_cache_usage_ratio",
    help: "Share of the key-value cache in use",
    type: "gauge",
    from: [
      { raw: "vllm:kv_cache_usage_perc" },
      // Before 0.9.2.
      { raw: "vllm:gpu_cache_usage_perc" },
      { raw: "sglang:token_usage" },
      // Removed in 2025 (build 6000 and later have none).
      { raw: "llamacpp:kv_cache_usage_ratio" },
      { raw: "stoker_runtime_kv_cache_usage_ratio" },
    ],
  },
  {
    name: "stoker_engine_prompt_tokens_total",
    help: "Prompt tokens the engine has read",
    type: "counter",
    from: [
      { raw: "vllm:prompt_tokens_total" },
      { raw: "sglang:prompt_tokens_total" },
      { raw: "llamacpp:prompt_tokens_total" },
      { raw: "stoker_runtime_tokens_total", label: ["kind", "prompt"] },
    ],
  },
  {
    name: "stoker_engine_generation_tokens_total",
    help: "Tokens the engine has generated",
    type: "counter",
    from: [
      { raw: "vllm:generation_tokens_total" },
      { raw: "sglang:generation_tokens_total" },
      { raw: "llamacpp:tokens_predicted_total" },
      { raw: "stoker_runtime_tokens_total", label: ["kind", "generated"] },
    ],
  },
];
