import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { hashOf } from "./blobs.ts";
import { chooseFile } from "./choose-file.ts";
import type { Format, Source } from "./source.ts";
import { WeightsError } from "./weights-error.ts";

type LocalSource = Extract<Source, { kind: "local" }>;

/**
 * A GGUF file of this host, the one in a folder that the engine would choose, or the folder of a model in ONNX or safetensors. Nothing
 * is copied.
 */
export async function findLocalFile(source: LocalSource, signal: AbortSignal): Promise<string> {
  const configuration = configurations[source.format ?? "gguf"];
  if (configuration && !(await isSnapshot(source.path, configuration)))
    throw unusable(source.path, `it is no folder with ${configuration} and .safetensors files`);
  if (configuration || (await isOnnxFolder(source.path))) {
    if (source.sha256 === undefined) return source.path;
    const text = `The weights at ${source.path} are a folder, and a sha256 pins one file: leave it out, or name a .gguf file.`;
    throw new WeightsError("weights_invalid", text, { retryable: false });
  }
  const path = await modelIn(source.path);
  const file = await open(path, "r").catch((cause: NodeJS.ErrnoException) => {
    throw unusable(source.path, cause.code === "EACCES" ? "the agent may not read it" : "it is not there");
  });
  try {
    // Check the content; otherwise a deployment could mount any file of this host into its container.
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    if (buffer.toString("latin1") !== "GGUF") throw unusable(source.path, "it is no GGUF file");
  } finally {
    await file.close();
  }
  if (source.sha256 !== undefined && (await hashOf(path, signal)) !== source.sha256) {
    const text = `${source.path} is not the file the deployment pins: its sha256 differs; correct the file or the hash.`;
    throw new WeightsError("hub_checksum_mismatch", text, { retryable: false });
  }
  return path;
}

/** File beside the weights of each format that is a folder of .safetensors. */
const configurations: Readonly<Partial<Record<Format, string>>> = {
  safetensors: "config.json",
  lora: "adapter_config.json",
};

async function isSnapshot(path: string, configuration: string): Promise<boolean> {
  const names = await readdir(path).catch((): string[] => []);
  return names.includes(configuration) && names.some((name) => /\.safetensors$/i.test(name));
}

/** Layout of the hub: a configuration, and a graph beside it or under onnx/. */
async function isOnnxFolder(path: string): Promise<boolean> {
  const names = await readdir(path).catch((): string[] => []);
  if (!names.includes("config.json") && !names.includes("model_index.json")) return false;
  const nested = await Promise.all(names.map((name) => readdir(join(path, name)).catch((): string[] => [])));
  return [...names, ...nested.flat()].some((name) => /\.onnx$/i.test(name));
}

async function modelIn(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  if (!found) throw unusable(path, "it is not there");
  if (found.isFile()) return path;
  if (!found.isDirectory()) throw unusable(path, "it is neither a file nor a folder");
  const names = await readdir(path, { withFileTypes: true });
  const files = names.filter((entry) => !entry.isDirectory());
  const sized = files.map(async ({ name }) => ({ path: name, sizeBytes: (await stat(join(path, name))).size }));
  return join(path, chooseFile(path, await Promise.all(sized)));
}

function unusable(path: string, why: string): WeightsError {
  const text = `The weights at ${path} on this host cannot be used: ${why}; give the path of a .gguf file, or of the folder of an ONNX or safetensors model, that the agent may read.`;
  return new WeightsError("weights_not_found", text, { retryable: false });
}
