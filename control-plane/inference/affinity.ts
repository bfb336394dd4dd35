// Where a prompt's beginning was worked at before, its keys and values still lie in that instance's cache. A number stands
// for that beginning, namespaced by account: what one tenant sends never steers where another's goes.
import type { AccountId } from "../../proto/ids.ts";
import type { Completion } from "./completion.ts";

/** Of the prompt; a shared system prompt is longer, and a conversation's later turns begin alike. */
const prefixBytes = 512;
/** Shorter prompts are computed sooner than they are steered. */
const worthBytes = 256;
/** Where the prompt's key usually stands in a body. */
const headBytes = 2_048;
const prime = 0x01000193;

/** 0: none. Reads a few hundred bytes of the body as it came; allocates nothing that grows with it. */
export function affinityOf(completion: Completion, account: AccountId): number {
  const key = completion.fields["prompt_cache_key"];
  if (typeof key === "string" && key !== "") return hashText(key, hashText(account, 0x811c9dc5)) || 1;
  if (completion.promptBytes < worthBytes) return 0;
  const { bytes } = completion;
  const head = bytes.subarray(0, headBytes);
  const at = Math.max(0, head.indexOf(completion.kind === "chat" ? '"messages"' : '"prompt"'));
  const end = Math.min(bytes.length, at + prefixBytes);
  let hash = hashText(account, 0x811c9dc5);
  for (let i = at; i < end; i++) hash = Math.imul(hash ^ (bytes[i] as number), prime);
  return hash >>> 0 || 1;
}

/** FNV-1a. */
export function hashText(text: string, seed: number): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), prime);
  return hash >>> 0;
}
