import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import { serveCalls } from "../../../threads/thread-calls.ts";
import { deltasOf, type ImageAdapter } from "./adapter-file.ts";
import { foldAdapter } from "./fold-adapter.ts";
import type { AdaptedPart } from "./read-adapter.ts";

export type FoldFunctions = typeof functions;
/** Path of each part's graph. */
type Paths = Readonly<Record<AdaptedPart, string>>;

const functions = {
  /** Writes the graphs that the adapters change and returns their parts. Throws AdapterRefusal. */
  async fold(adapters: readonly ImageAdapter[], sources: Paths, targets: Paths): Promise<AdaptedPart[]> {
    try {
      const deltas = (await Promise.all(adapters.map(deltasOf))).flat();
      const groups = Map.groupBy(deltas, (delta) => delta.part);
      for (const [part, group] of groups) await foldAdapter(sources[part], group, targets[part]);
      return [...groups.keys()];
    } catch (error) {
      throw refusalOf(error as NodeJS.ErrnoException);
    }
  },
};

function refusalOf(error: NodeJS.ErrnoException): Error {
  const { code, message } = error;
  if (error instanceof RangeError) return new AdapterRefusal(message);
  if (code === "ENOSPC")
    return new AdapterRefusal("the disk has no space for a copy of the model's UNet while it loads", {
      needsSpace: true,
    });
  if (code === "ENOENT" || code === "EACCES") return new AdapterRefusal(`the adapter cannot be read: ${message}`);
  return error;
}

serveCalls(functions);
