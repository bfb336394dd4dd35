// Parsers of vLLM that turn a model's text into tool calls and reasoning, the versions that have them, and the models that need them.
// Versions were read from the packages 0.10.2 to 0.32.0. `test/e2e/engines/vllm.test.ts` compares the names with an installed vLLM.
import type { Lifetime } from "./engine-version.ts";

type Parsers = Readonly<Record<string, Lifetime>>;

export const toolParsers: Parsers = {
  apertus: { since: "0.22.1" },
  cohere_command3: { since: "0.21" },
  cohere_command4: { since: "0.21" },
  deepseek_v3: {},
  deepseek_v31: {},
  deepseek_v32: { since: "0.13" },
  deepseek_v4: { since: "0.20.2" },
  deepseek_v41: { since: "0.30" },
  dots: { since: "0.28" },
  ernie45: { since: "0.11.2" },
  functiongemma: { since: "0.14.1" },
  gemma4: { since: "0.19.1" },
  gigachat3: { since: "0.13" },
  glm45: {},
  glm47: { since: "0.14.1" },
  granite: {},
  "granite-20b-fc": {},
  granite4: { since: "0.18.1" },
  hermes: {},
  hf: { since: "0.32" },
  hunyuan_a13b: {},
  hy_v3: { since: "0.20.2" },
  hy_v4: { since: "0.29" },
  inkling: { since: "0.26" },
  internlm: {},
  jamba: {},
  k2_horizon: { since: "0.30" },
  kimi_k2: {},
  kimi_k3: { since: "0.27.1" },
  lfm2: { since: "0.21" },
  ling3: { since: "0.28" },
  llama3_json: {},
  llama4_json: {},
  llama4_pythonic: {},
  longcat: { since: "0.11.2" },
  mimo: { since: "0.20.2" },
  minicpm5: { since: "0.23" },
  minimax: { until: "0.24" },
  minimax_m2: { since: "0.11.2" },
  minimax_m3: { since: "0.24" },
  mistral: {},
  muse_glimmer: { since: "0.28" },
  olmo3: { since: "0.11.2" },
  openai: {},
  phi4_mini_json: {},
  plamo3: { since: "0.32" },
  poolside_v1: { since: "0.21" },
  pythonic: {},
  qwen3_coder: {},
  qwen3_json: { since: "0.32" },
  qwen3_xml: { since: "0.11.2" },
  seed_oss: {},
  step3: {},
  step3p5: { since: "0.15.1" },
  xlam: {},
};

export const reasoningParsers: Parsers = {
  cohere_command3: { since: "0.21" },
  cohere_command4: { since: "0.21" },
  deepseek_r1: {},
  deepseek_v3: { since: "0.11.2" },
  deepseek_v4: { since: "0.20.2" },
  deepseek_v41: { since: "0.30" },
  ernie45: { since: "0.11.2" },
  gemma4: { since: "0.19.1" },
  glm45: {},
  glm47: { since: "0.24" },
  granite: {},
  granite_thinking_parser: { since: "0.31" },
  hf: { since: "0.32" },
  holo2: { since: "0.13" },
  hunyuan_a13b: {},
  hy_v3: { since: "0.20.2" },
  hy_v4: { since: "0.29" },
  inkling: { since: "0.26" },
  k2_horizon: { since: "0.30" },
  kimi_k2: { since: "0.11.2" },
  kimi_k3: { since: "0.27.1" },
  ling3: { since: "0.28" },
  mimo: { since: "0.20.2" },
  minicpmv: { since: "0.32" },
  minimax_m2: { since: "0.11.2" },
  minimax_m2_append_think: { since: "0.11.2" },
  minimax_m3: { since: "0.24" },
  mistral: {},
  muse_glimmer: { since: "0.28" },
  nemotron_v3: { since: "0.17.1" },
  olmo3: { since: "0.11.2" },
  openai_gptoss: {},
  plamo3: { since: "0.32" },
  poolside_v1: { since: "0.21" },
  qwen3: {},
  seed_oss: { since: "0.11.2" },
  step3: {},
  step3p5: { since: "0.15.1" },
};

/** A family applies if all that it names is true of a model; the first that applies is taken. */
export interface ParserFamily {
  readonly parser: string;
  /** `model_type` in config.json. */
  readonly types?: readonly string[];
  /** Texts that the chat template contains, all of them. */
  readonly template?: readonly string[];
  /** Text that the chat template does not contain. */
  readonly without?: string;
}

/** Families whose parser is named by the type come first: several of them write tags that others write too. */
export const toolFamilies: readonly ParserFamily[] = [
  { parser: "openai", types: ["gpt_oss"] },
  { parser: "seed_oss", types: ["seed_oss"] },
  { parser: "step3p5", types: ["step3p5"] },
  { parser: "minimax_m2", types: ["minimax_m2"] },
  { parser: "hunyuan_a13b", types: ["hunyuan_v1_moe"] },
  { parser: "ernie45", types: ["ernie4_5", "ernie4_5_moe"], template: ["<tool_call>"] },
  { parser: "jamba", types: ["jamba"] },
  { parser: "llama4_pythonic", types: ["llama4", "llama4_text"] },
  { parser: "deepseek_v32", types: ["deepseek_v32"] },
  { parser: "olmo3", template: ["<function_calls>"] },
  { parser: "longcat", template: ["<longcat_tool_call>"] },
  { parser: "apertus", template: ["<|tools_prefix|>"] },
  { parser: "lfm2", template: ["<|tool_call_start|>"] },
  { parser: "functiongemma", template: ["<start_function_call>"] },
  { parser: "gemma4", template: ["<|tool_call>"] },
  { parser: "kimi_k2", template: ["<|tool_calls_section_begin|>"] },
  { parser: "deepseek_v3", template: ["<｜tool▁calls▁begin｜>", "```json"] },
  { parser: "deepseek_v31", template: ["<｜tool▁calls▁begin｜>"] },
  { parser: "qwen3_coder", template: ["<tool_call>", "<function=", "<parameter="] },
  { parser: "glm45", template: ["<tool_call>", "<arg_key>"] },
  { parser: "granite", template: ["<|tool_call|>"], types: ["granite"] },
  { parser: "phi4_mini_json", template: ["<|tool|>"], types: ["phi3", "phi4mm"] },
  { parser: "internlm", template: ["<|plugin|>"] },
  { parser: "mistral", template: ["[TOOL_CALLS]"] },
  { parser: "llama3_json", template: ["<|python_tag|>"] },
  // Templates of Llama 3.2 and later 3.x have only the role.
  { parser: "llama3_json", types: ["llama", "mllama"], template: ["ipython", '"parameters"'] },
  { parser: "hermes", template: ["<tool_call>", "tojson"] },
];

export const reasoningFamilies: readonly ParserFamily[] = [
  { parser: "openai_gptoss", types: ["gpt_oss"] },
  { parser: "seed_oss", types: ["seed_oss"] },
  { parser: "step3p5", types: ["step3p5"] },
  { parser: "minimax_m2", types: ["minimax_m2"] },
  { parser: "hunyuan_a13b", types: ["hunyuan_v1_moe"] },
  { parser: "olmo3", types: ["olmo3"], template: ["<think>"] },
  { parser: "nemotron_v3", types: ["nemotron_h"], template: ["<think>"] },
  { parser: "kimi_k2", types: ["kimi_k2"], template: ["<think>"] },
  { parser: "glm45", types: ["glm4_moe", "glm4v_moe"] },
  { parser: "gemma4", template: ["<|channel>"] },
  { parser: "granite", types: ["granite"], template: ["Here is my thought process"] },
  { parser: "mistral", template: ["[THINK]"] },
  // Distilled models have the type of their base and the template of DeepSeek R1.
  { parser: "deepseek_r1", template: ["<｜Assistant｜><think>"], without: "enable_thinking" },
  { parser: "deepseek_v3", types: ["deepseek_v3"], template: ["thinking"] },
  { parser: "qwen3", template: ["<|im_start|>assistant", "<think>", "enable_thinking"] },
  { parser: "qwen3", template: ["<|im_start|>assistant\\n<think>"] },
];

/** Facts that determine the parsers of a model. */
export interface ChatModel {
  /** `model_type` in config.json; empty: unknown. */
  readonly type: string;
  /** Empty: the model has none. */
  readonly template: string;
}

export const familyOf = (families: readonly ParserFamily[], { type, template }: ChatModel): ParserFamily | undefined =>
  families.find(
    (family) =>
      (family.types?.includes(type) ?? true) &&
      (family.template?.every((text) => template.includes(text)) ?? true) &&
      (family.without === undefined || !template.includes(family.without)),
  );
