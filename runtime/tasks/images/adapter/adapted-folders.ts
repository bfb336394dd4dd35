// The graphs of a pipeline with its adapters folded in, for as long as they take to load.
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { LoadFailure } from "../../../llama/load-failure.ts";
import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import { readSafetensors } from "../../../llama/lora/safetensors.ts";
import type { Json, ModelFolder } from "../../../onnx/model-folder.ts";
import { foldAdapter } from "./fold-adapter.ts";
import { type AdaptedPart, type LayerDelta, readAdapter } from "./read-adapter.ts";

/** A .safetensors file, or a folder that holds one. */
export interface ImageAdapter {
  readonly path: string;
  /** 1: as it was trained. */
  readonly strength: number;
}

const usualNames = ["adapter_model.safetensors", "pytorch_lora_weights.safetensors"];

/**
 * Calls `use` with the folder of each part, its own copy where adapters change it; the copies go when that ends: what was loaded
 * keeps what it needs. Throws LoadFailure.
 */
export async function withAdapters<Result>(
  folder: ModelFolder,
  graphs: Readonly<Record<AdaptedPart, string>>,
  adapters: readonly ImageAdapter[],
  use: (folderOf: (part: AdaptedPart) => ModelFolder) => Promise<Result>,
): Promise<Result> {
  if (adapters.length === 0) return use(() => folder);
  const scratch = await mkdtemp(join(tmpdir(), "stoker-adapters-"));
  try {
    const deltas = (await Promise.all(adapters.map(deltasOf))).flat();
    const folders = new Map<AdaptedPart, ModelFolder>();
    for (const [part, group] of Map.groupBy(deltas, (delta) => delta.part))
      folders.set(part, await foldAdapter(folder, graphs[part], group, join(scratch, part)));
    return await use((part) => folders.get(part) ?? folder);
  } catch (error) {
    throw refused(error);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function deltasOf({ path, strength }: ImageAdapter): Promise<readonly LayerDelta[]> {
  try {
    const file = await fileOf(path);
    const config = await configBeside(file);
    const deltas = readAdapter(readSafetensors(await readFile(file)), config);
    return deltas.map((delta) => ({ ...delta, scale: delta.scale * strength }));
  } catch (error) {
    if (!(error instanceof AdapterRefusal)) throw error;
    throw new AdapterRefusal(`${basename(path)}: ${error.message}`, { cause: error });
  }
}

async function fileOf(path: string): Promise<string> {
  if (!(await stat(path)).isDirectory()) {
    if (/\.safetensors$/i.test(path)) return path;
    throw new AdapterRefusal("it is no .safetensors file, and other forms can run code when they are loaded");
  }
  const names = (await readdir(path)).filter((name) => /\.safetensors$/i.test(name));
  const found = usualNames.find((name) => names.includes(name)) ?? (names.length === 1 ? names[0] : undefined);
  if (found !== undefined) return join(path, found);
  throw new AdapterRefusal(
    names.length === 0 ? "there is no .safetensors file in it" : "it holds several files: name one",
  );
}

async function configBeside(file: string): Promise<Json> {
  try {
    return JSON.parse(await readFile(join(dirname(file), "adapter_config.json"), "utf8")) as Json;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw new AdapterRefusal(`its adapter_config.json cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

function refused(error: unknown): unknown {
  if (error instanceof AdapterRefusal || error instanceof RangeError)
    return new LoadFailure("image adapter not usable", error.message, { cause: error });
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ENOSPC")
    return new LoadFailure("no room for adapters", `${tmpdir()} must hold a copy of the model's UNet while it loads`);
  if (code === "ENOENT" || code === "EACCES")
    return new LoadFailure("image adapter not readable", (error as Error).message, { cause: error });
  return error;
}
