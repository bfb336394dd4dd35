// The library keeps every adapter it ever read until the model goes, by its path: an adapter that is loaded again would be
// the old one. So its entry is taken out and freed once its last context is gone; one of two places where internals are used.
import type { LlamaModel } from "node-llama-cpp";

interface Internals {
  readonly _loraAdapters: Map<string, { dispose(): Promise<void> }>;
}

/** `file` as it was given to the context, absolute. */
export function forgetAdapter(model: LlamaModel, file: string): void {
  const { _loraAdapters: kept } = model as unknown as Internals;
  const adapter = kept.get(file);
  if (!adapter) return;
  kept.delete(file);
  void adapter.dispose().catch(() => {});
}
