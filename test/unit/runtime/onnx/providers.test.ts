import { describe, expect, it } from "vitest";
import { checkIo } from "../../../../runtime/onnx/check-io.ts";
import { chooseProviders, fallbackWarning } from "../../../../runtime/onnx/open-graph.ts";

describe("the execution provider", () => {
  it("is the GPU where one was granted, and never TensorRT or WebGPU unasked", () => {
    expect(chooseProviders("auto", true)).toEqual(["cuda", "cpu"]);
    expect(chooseProviders("auto", false)).toEqual(["cpu"]);
    expect(chooseProviders("tensorrt", true)).toEqual(["tensorrt", "cuda", "cpu"]);
    expect(chooseProviders("cpu", true)).toEqual(["cpu"]);
  });

  it("is reported with the reason when it is not the best one", () => {
    expect(fallbackWarning(["cpu"], "cpu", [])).toBeUndefined();
    const words = fallbackWarning(["cuda", "cpu"], "cpu", ["cuda: libcublas.so.12:\n cannot open"]);
    expect(words).toContain("on cpu and not on cuda");
    expect(words).toContain("libcublas.so.12: cannot open");
  });
});

describe("a graph's inputs and outputs", () => {
  const io = (name: string, type: string, rank: number) => ({ name, type, shape: Array(rank).fill("n") });
  const needs = {
    known: [{ name: "input_ids", types: ["int64"], rank: 2 }],
    required: ["input_ids"],
    outputs: [
      { name: "sentence_embedding", types: ["float32"], rank: 2 },
      { name: "last_hidden_state", types: ["float32"], rank: 3 },
    ],
  };
  const check = (inputs: ReturnType<typeof io>[], outputs: ReturnType<typeof io>[]) =>
    checkIo("model.onnx", "embeddings", { inputs, outputs }, needs);
  const ids = io("input_ids", "int64", 2);
  const state = io("last_hidden_state", "float32", 3);

  it("match the task: the best readable output is chosen", () => {
    expect(check([ids], [state]).name).toBe("last_hidden_state");
    expect(check([ids], [state, io("sentence_embedding", "float32", 2)]).name).toBe("sentence_embedding");
  });

  it.each([
    ["an input is missing", [], [state], /has no input input_ids/],
    ["an input is unknown", [ids, io("pixels", "float32", 4)], [state], /wants an input pixels/],
    ["a type differs", [io("input_ids", "float32", 2)], [state], /input_ids of type float32 and not int64/],
    ["no output can be read", [ids], [io("logits", "float32", 2)], /has no output sentence_embedding or last_hidden/],
    ["dimensions differ", [ids], [io("last_hidden_state", "float32", 2)], /2 dimensions and not 3/],
  ])("are named when %s", (_, inputs, outputs, words) => {
    expect(() => check(inputs, outputs)).toThrow(words);
  });
});
