import { describe, expect, it } from "vitest";
import { vectorKind } from "../../../../runtime/llama/open-vectors.ts";

describe("what a GGUF model is used for", () => {
  it.each([
    ["", "llama", undefined, undefined],
    ["", "llama", 0, undefined],
    ["", "nomic-bert", undefined, "embeddings"],
    ["", "qwen3", 3, "embeddings"],
    ["", "bert", 4, "reranker"],
    ["reranker", "qwen3", undefined, "reranker"],
    ["embeddings", "llama", undefined, "embeddings"],
  ])("follows task %j, architecture %s and pooling %s: %s", (task, architecture, pooling, kind) => {
    expect(vectorKind(task, architecture, pooling)).toBe(kind);
  });
});
