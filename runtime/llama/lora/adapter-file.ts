// Returns a GGUF file for an adapter's path: a .gguf file unchanged, a PEFT folder converted.
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { ThreadCalls } from "../../threads/thread-calls.ts";
import { AdapterRefusal, adapterError } from "./adapter-refusal.ts";
import type { BaseModel } from "./convert-peft.ts";
import type { ConvertFunctions } from "./convert-thread.ts";
import { isGguf } from "./gguf-file.ts";

export interface AdapterFile {
  readonly path: string;
  /** Call when llama.cpp has read it. */
  remove(): Promise<void>;
}

/** Adapters of rank 256 for the largest models stay below it; read whole into memory. */
const maxBytes = 2 * 1024 ** 3 - 1;
const [configName, weightsName] = ["adapter_config.json", "adapter_model.safetensors"];

/** Throws AdapterRefusal. */
export async function adapterFile(given: string, base: BaseModel): Promise<AdapterFile> {
  const path = resolve(given);
  const found = await stat(path).catch((error: unknown) => {
    throw new AdapterRefusal(`there is no adapter at ${given}`, { cause: error });
  });
  if (found.isFile()) return ggufFile(path);
  const names = await readdir(path);
  if (names.includes(configName) && names.includes(weightsName)) return converted(path, base);
  const gguf = names.filter((name) => name.endsWith(".gguf"));
  if (gguf.length === 1) return ggufFile(join(path, gguf[0] as string));
  if (names.some((name) => name.endsWith(".bin")))
    throw new AdapterRefusal(
      `${given} holds pickled weights (.bin), which are never read; save the adapter as safetensors`,
    );
  throw new AdapterRefusal(`${given} holds neither ${configName} with ${weightsName} nor one .gguf file`);
}

async function ggufFile(path: string): Promise<AdapterFile> {
  if (!(await isGguf(path))) throw new AdapterRefusal(`${path} does not begin like a GGUF file`);
  return { path, remove: async () => {} };
}

/** In a thread of its own: hundreds of megabytes are read, changed and written while answers are streamed. */
async function converted(folder: string, base: BaseModel): Promise<AdapterFile> {
  const weights = join(folder, weightsName);
  const { size } = await stat(weights);
  if (size > maxBytes) throw new AdapterRefusal(`${weightsName} has ${size} bytes, the most is ${maxBytes}`);
  const place = await mkdtemp(join(tmpdir(), "stoker-adapter-"));
  const remove = () => rm(place, { recursive: true, force: true });
  const path = join(place, "adapter.gguf");
  const script = new URL("./convert-thread.ts", import.meta.url);
  const thread = new ThreadCalls<ConvertFunctions>(script, "that converts adapters", adapterError);
  try {
    await thread.call("convert", join(folder, configName), weights, path, base);
  } catch (error) {
    await remove();
    throw error;
  } finally {
    await thread.close();
  }
  return { path, remove };
}
