// A request that every model of a task can answer, and what such an answer looks like.

export interface TaskExample {
  readonly request: Readonly<Record<string, unknown>>;
  /** Read from standard input by command lines, where the request needs one. */
  readonly file?: "audio";
  /** Body of native inference, without its envelope. */
  readonly answer: Readonly<Record<string, unknown>>;
}

/** A picture of one grey point. */
const picture =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";

const labels = [
  { label: "positive", score: 0.98 },
  { label: "negative", score: 0.02 },
];

const text: TaskExample = {
  request: { input: "The capital of France is", max_new_tokens: 20 },
  answer: { results: [{ generated_text: " Paris." }], num_tokens: 2, num_input_tokens: 5 },
};
const vectors: TaskExample = {
  request: { inputs: ["The first text", "The second text"] },
  answer: {
    embeddings: [
      [0.01, -0.02],
      [0.03, 0.04],
    ],
    input_tokens: 10,
  },
};
const rerank: TaskExample = {
  request: {
    queries: ["What is the capital of France?"],
    documents: ["Paris is the capital of France.", "Bread is made of flour."],
  },
  answer: { scores: [0.98, 0.02], input_tokens: 42 },
};

const byTask: Readonly<Record<string, TaskExample>> = {
  "text-generation": text,
  "text2text-generation": text,
  embeddings: vectors,
  "sentence-similarity": vectors,
  "feature-extraction": vectors,
  reranker: rerank,
  "text-ranking": rerank,
  "automatic-speech-recognition": {
    request: {},
    file: "audio",
    answer: {
      text: "Hello World",
      segments: [{ id: 0, start: 0, end: 1, text: "Hello World" }],
      language: "en",
      input_length_ms: 1000,
      words: [{ start: 0, end: 0.5, text: "Hello" }],
      duration: 1,
    },
  },
  "text-to-speech": {
    request: { text: "Hello World" },
    answer: { audio: "data:audio/wav;base64,UklGRg==", input_character_length: 11, output_format: "wav", words: [] },
  },
  "text-to-image": {
    request: { prompt: "A lighthouse in a storm" },
    answer: { images: [picture], nsfw_content_detected: [false], seed: 42 },
  },
  "text-classification": { request: { input: "I love this." }, answer: { results: labels } },
  "zero-shot-classification": {
    request: { input: "I love this.", candidate_labels: ["positive", "negative"] },
    answer: { results: labels },
  },
  "token-classification": {
    request: { input: "Ada Lovelace lived in London." },
    answer: { results: [{ entity_group: "LOC", score: 0.99, word: "London", start: 22, end: 28 }] },
  },
  "fill-mask": {
    request: { input: "Paris is the [MASK] of France." },
    answer: {
      results: [{ sequence: "paris is the capital of france.", score: 0.99, token: 3007, token_str: "capital" }],
    },
  },
  "question-answering": {
    request: { question: "Where is the Eiffel tower?", context: "The Eiffel tower stands in Paris." },
    answer: { answer: "Paris", score: 0.99, start: 27, end: 32 },
  },
  "image-classification": { request: { image: picture }, answer: { results: labels } },
  "zero-shot-image-classification": {
    request: { image: picture, candidate_labels: ["positive", "negative"] },
    answer: { results: labels },
  },
  "object-detection": {
    request: { image: picture },
    answer: { results: [{ label: "cat", score: 0.99, box: { xmin: 10, ymin: 20, xmax: 110, ymax: 220 } }] },
  },
};

export const exampleOf = (task: string): TaskExample => byTask[task] ?? { request: { input: "Hello" }, answer: {} };

/** As every native answer ends. */
export const exampleEnvelope = {
  request_id: "R7X9fdlIaF5GlVisBAi5xR3E",
  inference_status: { status: "succeeded", runtime_ms: 228, cost: 0.000114, tokens_generated: 2, tokens_input: 5 },
};
