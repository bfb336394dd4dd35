import { describe, expect, it } from "vitest";
import { readLook } from "../../../../control-plane/catalog/hub-look.ts";
import { chooseEngine } from "../../../../control-plane/deployments/create.ts";

const reading = (...files: string[]) =>
  readLook({ siblings: files.map((rfilename) => ({ rfilename })), pipeline_tag: "image-text-to-text" });
const holding = (...files: string[]) =>
  readLook({ siblings: files.map((rfilename) => ({ rfilename })), pipeline_tag: "text-generation" });

describe("the engine of a repository", () => {
  it.each([
    ["safetensors on a GPU", "H100-80GB", holding("a.safetensors"), { engine: "vllm", format: "safetensors" }],
    ["GGUF on a GPU", "H100-80GB", holding("a.gguf"), { engine: "stoker", format: undefined }],
    ["both on a GPU", "L4-24GB", holding("a.gguf", "b.safetensors"), { engine: "vllm", format: "safetensors" }],
    ["both without one", "other", holding("a.gguf", "b.safetensors"), { engine: "stoker", format: undefined }],
    [
      "both on a GPU of another type",
      "MI300X-192GB",
      holding("a.gguf", "b.safetensors"),
      { engine: "stoker", format: undefined },
    ],
    ["safetensors on such a GPU", "MI300X-192GB", holding("b.safetensors"), { engine: "vllm", format: "safetensors" }],
    ["pictures read by ONNX", "other", reading("onnx/a.onnx", "b.safetensors"), { engine: "stoker", format: "onnx" }],
    ["the same on a GPU", "H100-80GB", reading("a.onnx", "b.safetensors"), { engine: "vllm", format: "safetensors" }],
    ["a hub that is away", "H100-80GB", { kind: "unreachable" }, { engine: "stoker", format: undefined }],
    ["a repository that is not there", "H100-80GB", { kind: "missing" }, { engine: "stoker", format: undefined }],
  ] as const)("%s", (_, gpu, look, choice) => {
    expect(chooseEngine(undefined, gpu, look)).toEqual(choice);
  });

  it("is the requested one, whatever the repository holds", () => {
    expect(chooseEngine("sglang", "H100-80GB", holding("a.gguf"))).toEqual({ engine: "sglang", format: "safetensors" });
    const both = holding("a.gguf", "b.safetensors");
    expect(chooseEngine("llamacpp", "H100-80GB", both)).toEqual({ engine: "llamacpp", format: undefined });
  });

  it.each([
    ["safetensors without a GPU", "other", holding("a.safetensors"), /GPU of a named type/],
    ["ONNX", "H100-80GB", holding("onnx/model.onnx"), /deploy\/hf/],
    ["pickled files", "H100-80GB", holding("pytorch_model.bin"), /pickled/],
  ] as const)("is refused with what would work for %s", (_, gpu, look, why) => {
    expect(chooseEngine(undefined, gpu, look)).toEqual({ why: expect.stringMatching(why) });
  });
});
