// An image adapter on disk: a .safetensors file, or a folder that holds one.
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import { readSafetensors } from "../../../llama/lora/safetensors.ts";
import type { Json } from "../../../onnx/model-folder.ts";
import { type LayerDelta, readAdapter } from "./read-adapter.ts";

export interface ImageAdapter {
  readonly path: string;
  /** 1: as it was trained. */
  readonly strength: number;
}

const usualNames = ["adapter_model.safetensors", "pytorch_lora_weights.safetensors"];

/** Throws AdapterRefusal, and errors of the file system. */
export async function deltasOf({ path, strength }: ImageAdapter): Promise<readonly LayerDelta[]> {
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

/** Returns the size of the adapter's file; 0 if it cannot be read. */
export async function adapterBytes({ path }: ImageAdapter): Promise<number> {
  try {
    return (await stat(await fileOf(path))).size;
  } catch {
    // The error is reported when the file is opened.
    return 0;
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
