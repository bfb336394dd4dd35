// Whole repositories in one format, laid out as every hub tool does, and what is refused of them.
import { createHash, randomBytes } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { anySignal, type CacheWorld, refusal, repo, startCacheWorld } from "./cache-world.ts";

const large = (bytes = 20_000): Buffer => randomBytes(bytes);
const text = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const config = text({ model_type: "llama" });

let world: CacheWorld;
beforeEach(async () => {
  world = await startCacheWorld();
});
afterEach(() => world.end());

async function fetched(files: Record<string, Buffer>, more: object, listsNoDigests = false) {
  const hub = await world.hub(files);
  hub.listsNoDigests = listsNoDigests;
  const { modelPath } = await world.store(hub).ensure({ repo, ...more }, () => {}, anySignal());
  return { hub, modelPath };
}
async function refused(files: Record<string, Buffer>, more: object) {
  const hub = await world.hub(files);
  const error = await refusal(world.store(hub).ensure({ repo, ...more }, () => {}, anySignal()));
  return { hub, error };
}
const filesIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

describe("a repository of safetensors", () => {
  const files = {
    "README.md": text("words"),
    "config.json": config,
    "tokenizer.json": text({ version: "1.0" }),
    "model-00001-of-00002.safetensors": large(),
    "model-00002-of-00002.safetensors": large(),
    "model.safetensors.index.json": text({ weight_map: {} }),
    "pytorch_model.bin": large(),
    "modeling_tiny.py": text("import os"),
    "original/consolidated.safetensors": large(),
  };
  const parts = [
    "config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
  ];

  it.each([false, true])(
    "comes as a folder without code, pickles and copies, each file verified (a list without digests: %s)",
    async (listsNoDigests) => {
      const { hub, modelPath } = await fetched(files, { format: "safetensors" }, listsNoDigests);
      expect(await filesIn(modelPath)).toEqual(parts);
      for (const name of parts)
        expect(files[name as keyof typeof files].equals(await readFile(join(modelPath, name)))).toBe(true);
      expect(modelPath).toMatch(new RegExp(`models--acme--tiny/snapshots/${hub.commit}/?$`));
      const root = join(world.cacheDir, "models--acme--tiny");
      expect(await readFile(join(root, "refs", "main"), "utf8")).toBe(hub.commit);
      expect(await readdir(join(root, "blobs"))).toHaveLength(parts.length);
      const digest = createHash("sha256").update(config).digest("hex");
      const [shown, blob] = await Promise.all([
        stat(join(modelPath, "config.json")),
        stat(join(world.cacheDir, "blobs", digest)),
      ]);
      expect(shown.ino).toBe(blob.ino);
    },
  );

  it("is not fetched again", async () => {
    const { hub } = await fetched(files, { format: "safetensors" });
    const before = hub.sentBytes;
    await world.store(hub).ensure({ repo, format: "safetensors" }, () => {}, anySignal());
    expect(hub.sentBytes).toBe(before);
  });

  it("with a part missing is refused before the first byte", async () => {
    const { "model-00002-of-00002.safetensors": _, ...rest } = files;
    const { hub, error } = await refused(rest, { format: "safetensors" });
    expect(error).toMatchObject({ code: "weights_unsupported", retryable: false });
    expect(error.message).toContain("1 of 2 parts");
    expect(hub.sentBytes).toBe(0);
  });

  it("that wants its own Python run is refused before the weights come", async () => {
    const remote = text({ auto_map: { AutoModel: "modeling_tiny.TinyModel" } });
    const { hub, error } = await refused({ ...files, "config.json": remote }, { format: "safetensors" });
    expect(error).toMatchObject({ code: "weights_unsupported", retryable: false });
    expect(error.message).toContain("auto_map in config.json");
    expect(hub.sentBytes).toBeLessThan(10_000);
  });

  it("that has pickles only is refused with the reason", async () => {
    const { error } = await refused({ "config.json": config, "pytorch_model.bin": large() }, { format: "safetensors" });
    expect(error).toMatchObject({ code: "weights_unsupported", retryable: false });
    expect(error.message).toMatch(/pickle files, which can run code/);
  });
});

describe("other formats", () => {
  it("an ONNX model comes with the data it keeps beside itself", async () => {
    const files = {
      "config.json": config,
      "onnx/model.onnx": large(),
      "onnx/model.onnx_data": large(),
      "onnx/model_quantized.onnx": large(),
      "model.safetensors": large(),
    };
    const { modelPath } = await fetched(files, { format: "onnx" });
    expect(await filesIn(modelPath)).toEqual(["config.json", "onnx/model.onnx", "onnx/model.onnx_data"]);
    const other = await world.store(world.opened[0] as never as { url: string });
    const named = await other.ensure(
      { repo, format: "onnx", file: "onnx/model_quantized.onnx" },
      () => {},
      anySignal(),
    );
    expect(await filesIn(named.modelPath)).toContain("onnx/model_quantized.onnx");
  });

  it("a GGUF model in parts comes whole, and the engine is given its first part", async () => {
    const part = (n: number): Buffer => Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(2000, n)]);
    const { modelPath } = await fetched({ "m-00001-of-00002.gguf": part(1), "m-00002-of-00002.gguf": part(2) }, {});
    expect(modelPath).toMatch(/\/m-00001-of-00002\.gguf$/);
    expect(part(2).equals(await readFile(modelPath.replace("00001-of", "00002-of")))).toBe(true);
  });

  it("a LoRA adapter comes as its two files; another kind and a pickle are refused", async () => {
    const adapter = { "adapter_config.json": text({ peft_type: "LORA", r: 8 }), "adapter_model.safetensors": large() };
    const { modelPath } = await fetched(adapter, { format: "lora" });
    expect(await filesIn(modelPath)).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
    const tuning = { ...adapter, "adapter_config.json": text({ peft_type: "PREFIX_TUNING" }) };
    expect((await refused(tuning, { format: "lora", revision: "main" })).error.message).toContain("only LORA");
    const pickle = { "adapter_config.json": text({ peft_type: "LORA" }), "adapter_model.bin": large() };
    expect((await refused(pickle, { format: "lora" })).error.message).toContain("a pickle");
  });

  it("files whose names would leave the folder are not taken", async () => {
    const { modelPath } = await fetched(
      { "config.json": config, "model.safetensors": large(), "../../evil.json": text({}), "a/../../x.json": text({}) },
      { format: "safetensors" },
    );
    expect(await filesIn(modelPath)).toEqual(["config.json", "model.safetensors"]);
  });
});

describe("a private repository", () => {
  it("whose list is open is not handed out from the cache to who may not read its files", async () => {
    const files = { "config.json": config, "model.safetensors": large() };
    const hub = await world.hub(files, { token: "hf_right" });
    const store = world.store(hub);
    await store.ensure({ repo, format: "safetensors", token: "hf_right" }, () => {}, anySignal());
    const error = await refusal(store.ensure({ repo, format: "safetensors" }, () => {}, anySignal()));
    expect(error.code).toBe("hub_gated_no_token");
  });
});
