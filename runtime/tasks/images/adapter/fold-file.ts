// Folds adapters in a thread of their own: gigabytes may be copied and changed, and pictures that are being painted must not
// wait for it.

import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import { runInThread } from "../../../threads/thread-calls.ts";
import type { ImageAdapter } from "./adapter-file.ts";
import type { AdaptedPart } from "./read-adapter.ts";

export interface Folding {
  readonly adapters: readonly ImageAdapter[];
  /** Paths of the graphs as they are, and of those that are written. */
  readonly sources: Readonly<Record<AdaptedPart, string>>;
  readonly targets: Readonly<Record<AdaptedPart, string>>;
}

/** Final message of the thread: the parts that the adapters change, or the reason for which they cannot be used. */
export type FoldingEnd =
  | { readonly parts: readonly AdaptedPart[] }
  | { readonly refusal: string; readonly needsSpace: boolean };

/** Throws AdapterRefusal. */
export async function foldFile(folding: Folding): Promise<readonly AdaptedPart[]> {
  const script = new URL("./fold-thread.ts", import.meta.url);
  const end = await runInThread<FoldingEnd>(script, folding, "that folds adapters");
  if ("refusal" in end) throw new AdapterRefusal(end.refusal, { needsSpace: end.needsSpace });
  return end.parts;
}
