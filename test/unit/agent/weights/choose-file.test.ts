import { describe, expect, it } from "vitest";
import {
  chooseFile,
  chooseModel,
  chooseSnapshot,
  partsOf,
  refuseOtherFormats,
} from "../../../../agent/weights/choose-file.ts";

const file = (path: string, sizeBytes = 100): { path: string; sizeBytes: number } => ({ path, sizeBytes });

describe("the file of a repository that is loaded", () => {
  it("is Q4_K_M, then Q8_0, then the smallest", () => {
    const q4 = file("m.q4_k_m.gguf", 50);
    const q8 = file("m-Q8_0.gguf", 90);
    const small = file("m.IQ2_XS.gguf", 20);
    expect(chooseFile("a/b", [small, q8, q4])).toBe("m.q4_k_m.gguf");
    expect(chooseFile("a/b", [small, q8, file("README.md")])).toBe("m-Q8_0.gguf");
    expect(chooseFile("a/b", [file("m.f16.gguf", 200), small])).toBe("m.IQ2_XS.gguf");
  });

  it("is never a projector, an adapter, an importance matrix or a part of a split model", () => {
    const beside = [file("mmproj-m-Q8_0.gguf", 1), file("x/imatrix.gguf", 1), file("my-lora.gguf", 1)];
    expect(chooseFile("a/b", [...beside, file("m-Q4_K_M-00001-of-00002.gguf", 1), file("m.f16.gguf")])).toBe(
      "m.f16.gguf",
    );
  });

  it.each([
    [["model.safetensors"], /safetensors.*GGUF.*tiny-GGUF/],
    [["pytorch_model.bin"], /pickle.*refused/],
    [["onnx/model.onnx"], /ONNX/],
    [["README.md"], /holds no model weights/],
    [["m-00001-of-00002.gguf"], /every part/],
  ])("does not exist in %j, and the refusal says what would work", (paths, text) => {
    const attempt = (): string =>
      chooseFile(
        "acme/tiny",
        paths.map((path) => file(path)),
      );
    expect(attempt).toThrow(text);
    expect(attempt).toThrow(expect.objectContaining({ code: "weights_unsupported", retryable: false }));
  });

  it("is a split model with all its parts where no whole one is there, in order", () => {
    const parts = ["m-00002-of-00002.gguf", "m-00001-of-00002.gguf"].map((path) => file(path, 40));
    const paths = (model: readonly { path: string }[]) => model.map(({ path }) => path);
    const inOrder = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    expect(paths(chooseModel("a/b", [...parts, file("README.md")]))).toEqual(inOrder);
    expect(paths(chooseModel("a/b", [...parts, file("x.f16.gguf", 60)]))).toEqual(["x.f16.gguf"]);
    expect(paths(partsOf("a/b", "m-00002-of-00002.gguf", [...parts, file("x.f16.gguf")]))).toEqual(inOrder);
    expect(() => partsOf("a/b", "m-00001-of-00003.gguf", parts)).toThrow(/every part/);
  });

  it("can be named, but only as GGUF", () => {
    expect(() => refuseOtherFormats("a/b", "x/m.gguf")).not.toThrow();
    expect(() => refuseOtherFormats("a/b", "model.safetensors")).toThrow(/safetensors/);
  });
});

describe("the text files beside weights", () => {
  const weights = file("model.safetensors");
  const texts = (count: number, sizeBytes: number) =>
    Array.from({ length: count }, (_, n) => file(`f${n}.json`, sizeBytes));
  const choose = (count: number, sizeBytes: number) =>
    chooseSnapshot("a/b", "safetensors", undefined, [...texts(count, sizeBytes), weights]);

  it("are all chosen up to 500 files and 1 GB", () => {
    expect(choose(500, 2e6)).toHaveLength(501);
  });

  it.each([
    [501, 1],
    [20, 60e6],
  ])("refuse the repository when there are %d of %d bytes", (count, sizeBytes) => {
    expect(() => choose(count, sizeBytes)).toThrow(/at most 500 files and 1000000000 bytes/);
  });
});
