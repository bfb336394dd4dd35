// Converts an adapter in a thread of its own: hundreds of megabytes are read, changed and written, and answers that are being
// streamed must not wait for it.
import { runInThread } from "../../threads/thread-calls.ts";
import { AdapterRefusal } from "./adapter-refusal.ts";
import type { BaseModel } from "./base-layout.ts";

export interface Conversion {
  /** Paths of the adapter's two files, and of the GGUF file that is written. */
  readonly config: string;
  readonly weights: string;
  readonly gguf: string;
  readonly base: BaseModel;
}

/** Final message of the thread: empty, or the reason for which the adapter cannot be used. */
export type ConversionEnd = { readonly refusal: string | undefined };

/** Throws AdapterRefusal. */
export async function convertFile(conversion: Conversion): Promise<void> {
  const script = new URL("./convert-thread.ts", import.meta.url);
  const { refusal } = await runInThread<ConversionEnd>(script, conversion, "that converts adapters");
  if (refusal !== undefined) throw new AdapterRefusal(refusal);
}
