import { parentPort, workerData } from "node:worker_threads";
import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import { deltasOf } from "./adapter-file.ts";
import { foldAdapter } from "./fold-adapter.ts";
import type { Folding, FoldingEnd } from "./fold-file.ts";
import type { AdaptedPart } from "./read-adapter.ts";

const { adapters, sources, targets } = workerData as Folding;

async function fold(): Promise<FoldingEnd> {
  const deltas = (await Promise.all(adapters.map(deltasOf))).flat();
  const groups = Map.groupBy(deltas, (delta) => delta.part);
  for (const [part, group] of groups) await foldAdapter(sources[part], group, targets[part]);
  return { parts: [...groups.keys()] satisfies AdaptedPart[] };
}

/** Anything else ends the thread, and its parent hears of it. */
function refusalOf(error: unknown): FoldingEnd {
  if (error instanceof AdapterRefusal || error instanceof RangeError)
    return { refusal: error.message, needsSpace: false };
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC")
    return { refusal: "the disk has no space for a copy of the model's UNet while it loads", needsSpace: true };
  if (code === "ENOENT" || code === "EACCES")
    return { refusal: `the adapter cannot be read: ${message}`, needsSpace: false };
  throw error;
}

const end = await fold().catch(refusalOf);
parentPort?.postMessage(end);
