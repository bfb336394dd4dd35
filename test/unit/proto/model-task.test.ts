import { describe, expect, it } from "vitest";
import { detectTask } from "../../../proto/model-task.ts";

const none = new Set<string>();
const of = (architecture: string, more: Record<string, unknown> = {}) =>
  detectTask({ architectures: [architecture], ...more }, none);

describe("the task of a model", () => {
  it.each([
    ["BertModel", {}, "embeddings"],
    ["XLMRobertaForSequenceClassification", { id2label: { "0": "LABEL_0" } }, "reranker"],
    ["BertForSequenceClassification", { id2label: { "0": "bad", "1": "good" } }, "text-classification"],
    [
      "BartForSequenceClassification",
      { id2label: { "0": "contradiction", "2": "entailment" } },
      "zero-shot-classification",
    ],
    ["BertForTokenClassification", {}, "token-classification"],
    ["BertForMaskedLM", {}, "fill-mask"],
    ["BertForQuestionAnswering", {}, "question-answering"],
    ["ResNetForImageClassification", {}, "image-classification"],
    ["CLIPModel", {}, "zero-shot-image-classification"],
    ["Idefics3ForConditionalGeneration", {}, "image-text-to-text"],
    ["DetrForObjectDetection", {}, "object-detection"],
    ["WhisperForConditionalGeneration", {}, "automatic-speech-recognition"],
  ] as const)("is read from the configuration: %s", (architecture, more, task) => {
    expect(of(architecture, more)).toBe(task);
  });

  it("is text-to-image for a pipeline of several models", () => {
    expect(detectTask({}, new Set(["model_index.json"]))).toBe("text-to-image");
  });

  it("voices are known by fields that no other model has", () => {
    expect(detectTask({ phoneme_id_map: {} }, none)).toBe("text-to-speech");
    expect(detectTask({ istftnet: {}, vocab: {} }, none)).toBe("text-to-speech");
    expect(detectTask({ model_type: "style_text_to_speech_2" }, none)).toBe("text-to-speech");
  });

  it("is unknown for a configuration that does not state it", () => {
    expect(detectTask({}, none)).toBeUndefined();
    expect(of("MysteryForThings")).toBeUndefined();
  });
});
