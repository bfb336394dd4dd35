// The graphs of a pipeline with adapters folded in, for as long as they take to load.
import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { adapterError } from "../../../llama/lora/adapter-refusal.ts";
import type { ModelFolder } from "../../../onnx/model-folder.ts";
import { ThreadCalls } from "../../../threads/thread-calls.ts";
import type { ImageAdapter } from "./adapter-file.ts";
import type { FoldFunctions } from "./fold-thread.ts";
import type { AdaptedPart } from "./read-adapter.ts";

const scratchName = "stoker-adapters-";
/** Left by a process that was killed: no load takes as long. */
const forgottenMs = 3_600_000;

/**
 * Calls `use` with the folder of each part, its own copy where adapters change it; the copies go when that ends: what was loaded
 * keeps what it needs. `scratchDir`: where they lie; undefined: the system's folder. Throws AdapterRefusal.
 */
export async function withAdapters<Result>(
  folder: ModelFolder,
  graphs: Readonly<Record<AdaptedPart, string>>,
  adapters: readonly ImageAdapter[],
  scratchDir: string | undefined,
  use: (folderOf: (part: AdaptedPart) => ModelFolder) => Promise<Result>,
): Promise<Result> {
  if (adapters.length === 0) return use(() => folder);
  const parent = scratchDir ?? tmpdir();
  await mkdir(parent, { recursive: true });
  await dropForgotten(parent);
  const scratch = await mkdtemp(join(parent, scratchName));
  try {
    const folders: Record<AdaptedPart, ModelFolder> = {
      unet: below(folder, join(scratch, "unet")),
      text_encoder: below(folder, join(scratch, "text_encoder")),
    };
    const sources = { unet: folder.path(graphs.unet), text_encoder: folder.path(graphs.text_encoder) };
    const targets = {
      unet: folders.unet.path(graphs.unet),
      text_encoder: folders.text_encoder.path(graphs.text_encoder),
    };
    const parts = await folded(adapters, sources, targets);
    return await use((part) => (parts.includes(part) ? folders[part] : folder));
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** In a thread of its own: gigabytes may be copied and changed while pictures are painted. */
async function folded(...paths: Parameters<FoldFunctions["fold"]>): Promise<readonly AdaptedPart[]> {
  const script = new URL("./fold-thread.ts", import.meta.url);
  const thread = new ThreadCalls<FoldFunctions>(script, "that folds adapters", adapterError);
  return thread.call("fold", ...paths).finally(() => thread.close());
}

const below = (folder: ModelFolder, root: string): ModelFolder => ({
  ...folder,
  root,
  path: (name) => join(root, name),
});

async function dropForgotten(parent: string): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    if (!name.startsWith(scratchName)) continue;
    const seen = await stat(join(parent, name)).catch(() => undefined);
    if (seen && Date.now() - seen.mtimeMs > forgottenMs) await rm(join(parent, name), { recursive: true, force: true });
  }
}
