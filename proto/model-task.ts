// Detects the task of a model from its configuration. Both sides use it, so that the control plane and the model server agree.
// Pure.

type Json = Readonly<Record<string, unknown>>;

export type Task =
  | "embeddings"
  | "reranker"
  | "text-classification"
  | "zero-shot-classification"
  | "token-classification"
  | "fill-mask"
  | "question-answering"
  | "image-classification"
  | "zero-shot-image-classification"
  | "object-detection"
  | "automatic-speech-recognition"
  | "text-to-speech"
  | "text-to-image"
  | "image-text-to-text";

const architectures: readonly (readonly [pattern: RegExp, task: Task])[] = [
  [/ForTokenClassification$/, "token-classification"],
  [/ForQuestionAnswering$/, "question-answering"],
  [/ForMaskedLM$/, "fill-mask"],
  [/ForObjectDetection$/, "object-detection"],
  [/ForImageClassification(WithTeacher)?$/, "image-classification"],
  [/^(Idefics3|SmolVLM)ForConditionalGeneration$/, "image-text-to-text"],
  [/^(CLIP|Siglip2?|ChineseCLIP|AltCLIP)Model$/, "zero-shot-image-classification"],
  [/ForSpeechSeq2Seq$|^Whisper|ForCTC$/, "automatic-speech-recognition"],
  [/ForTextToSpeech$|^StyleTextToSpeech|^Vits|^Kokoro/i, "text-to-speech"],
];

/** Undefined: the configuration does not say. `files`: paths relative to the model's folder. */
export function detectTask(config: Json, files: { has(name: string): boolean }): Task | undefined {
  if (files.has("model_index.json")) return "text-to-image";
  // Piper voices and Kokoro name no architecture; these fields are theirs alone.
  if ("phoneme_id_map" in config || "istftnet" in config || config["model_type"] === "style_text_to_speech_2")
    return "text-to-speech";
  const list = Array.isArray(config["architectures"]) ? config["architectures"] : [];
  for (const name of list.filter((one) => typeof one === "string")) {
    if (/ForSequenceClassification$/.test(name)) return classification(config);
    const found = architectures.find(([pattern]) => pattern.test(name));
    if (found) return found[1];
    if (/Model$/.test(name)) return "embeddings";
  }
  return undefined;
}

/** One label is a score; labels of entailment answer any question of the form "is it about". */
function classification(config: Json): Task {
  const names = labelsOf(config);
  if (names.length === 1) return "reranker";
  return names.some((name) => /^entail/i.test(name)) ? "zero-shot-classification" : "text-classification";
}

/** By their index. */
export function labelsOf(config: Json): readonly string[] {
  const labels = config["id2label"];
  if (typeof labels === "object" && labels !== null) {
    const entries = Object.entries(labels).map(([id, name]) => [Number(id), String(name)] as const);
    return entries.sort(([a], [b]) => a - b).map(([, name]) => name);
  }
  const count = config["num_labels"];
  return typeof count === "number" ? Array.from({ length: count }, (_, id) => `LABEL_${id}`) : [];
}
