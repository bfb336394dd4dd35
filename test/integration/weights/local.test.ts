import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWeights, type WeightsStore } from "../../../agent/weights/fetch-weights.ts";

let folder: string;
let store: WeightsStore;
const ensure = (localPath: string, more = {}): Promise<{ modelPath: string }> =>
  store.ensure({ localPath, ...more }, () => {}, AbortSignal.timeout(10_000));

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "stoker-local-"));
  store = createWeights({ cacheDir: join(folder, "cache"), log: pino({ level: "silent" }) });
  await writeFile(join(folder, "model.gguf"), "GGUF and so on");
  await writeFile(join(folder, "secret"), "root:x:0:0");
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

describe("weights at a local path", () => {
  it("are used where they lie, named as a file or by their folder", async () => {
    const modelPath = join(folder, "model.gguf");
    expect(await ensure(modelPath)).toEqual({ modelPath, commit: "" });
    expect(await ensure(folder)).toEqual({ modelPath, commit: "" });
  });

  it("that are no GGUF file are refused, so that no other file of the host can be mounted", async () => {
    await expect(ensure(join(folder, "secret"))).rejects.toMatchObject({ code: "weights_not_found", retryable: false });
  });

  it.each([
    ["safetensors", "config.json"],
    ["lora", "adapter_config.json"],
  ])("in the format %s are a folder with %s", async (format, configuration) => {
    await expect(ensure(folder, { format })).rejects.toThrow(`no folder with ${configuration}`);
    await writeFile(join(folder, "model.safetensors"), "weights");
    await expect(ensure(folder, { format })).rejects.toMatchObject({ code: "weights_not_found" });
    await writeFile(join(folder, configuration), "{}");
    expect(await ensure(folder, { format })).toEqual({ modelPath: folder, commit: "" });
  });

  it("that are absent, relative or not the pinned file are refused with the path", async () => {
    await expect(ensure(join(folder, "gone.gguf"))).rejects.toThrow(/gone\.gguf.*it is not there/);
    await expect(ensure("model.gguf")).rejects.toMatchObject({ code: "weights_invalid" });
    const pinned = ensure(join(folder, "model.gguf"), { sha256: "ab".repeat(32) });
    await expect(pinned).rejects.toMatchObject({ code: "hub_checksum_mismatch" });
  });
});
