// Example replies of inference operations, by operation. Each is valid against its own schema:
// test/contract/open-api.test.ts.
import { exampleEnvelope } from "../models/examples.ts";

const usage = { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9, estimated_cost: 0.0000004 };
const pictures = { created: 1_786_000_000, data: [{ b64_json: "iVBORw0KGgo=", revised_prompt: null, url: null }] };
const chatModel = "meta-llama/Llama-3.1-8B-Instruct";
const message = { role: "assistant", content: "Hello!", reasoning_content: null };

export const answerExamples: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "POST /v1/completions": {
    id: "cmpl-8f3b",
    object: "text_completion",
    created: 1_786_000_000,
    model: "meta-llama/Llama-3.1-8B",
    choices: [{ index: 0, text: " Paris.", logprobs: null, finish_reason: "stop" }],
    usage,
  },
  "POST /v1/compat/chat/completions": {
    id: "chatcmpl-guMTxWgpFf",
    object: "chat.completion",
    created: 1_786_000_000,
    model: chatModel,
    choices: [{ index: 0, message, finish_reason: "stop", logprobs: null }],
    usage: { ...usage, prompt_tokens_details: { cached_tokens: 0 } },
    service_tier: "default",
  },
  "POST /v1/messages": {
    id: "msg_R7X9fdlIaF5GlVisBAi5xR3E",
    type: "message",
    role: "assistant",
    model: chatModel,
    content: [{ type: "text", text: "Hello!" }],
    stop_reason: "end_turn",
    stop_sequence: null,
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: {
      input_tokens: 6,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: 3,
      output_tokens_details: { thinking_tokens: 0 },
      service_tier: "standard",
      cache_creation: null,
      inference_geo: null,
      server_tool_use: null,
      speed: null,
    },
  },
  "POST /v1/messages/count_tokens": { input_tokens: 6 },
  "POST /v1/compat/embeddings": {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [0.01, -0.02] }],
    model: "BAAI/bge-m3",
    usage: { prompt_tokens: 4, total_tokens: 4, estimated_cost: 0.00000004 },
  },
  "POST /v1/compat/audio/transcriptions": { text: "Hello World" },
  "POST /v1/compat/audio/translations": { text: "Hello World" },
  "POST /v1/compat/images/generations": pictures,
  "POST /v1/compat/images/variations": pictures,
  "POST /v1/compat/images/edits": pictures,
  "POST /v1/inference/{model_name}": { results: [{ generated_text: " Paris." }], ...exampleEnvelope },
  "POST /v1/inference/deploy/{deploy_id}": { embeddings: [[0.01, -0.02]], input_tokens: 4, ...exampleEnvelope },
};
