// Number of a prompt's prefix: an instance that evaluated the same prefix has its keys and values in its cache. The number depends
// on the account, so that the requests of one tenant never steer those of another.
import type { AccountId } from "../../proto/ids.ts";
import type { Completion } from "./completion.ts";

/** Length of the prefix; a shared system prompt is longer, and the turns of a conversation start alike. */
const prefixBytes = 512;
/** Minimum length of a prompt: evaluating a shorter one again is cheap. */
const worthBytes = 256;
/** Part of the body that is searched for the prompt's key. */
const headBytes = 2_048;
const prime = 0x01000193;

/** 0: none. Reads a few hundred bytes of the body; allocates nothing that grows with it. */
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

/** Finaliser of MurmurHash3: every bit of the result depends on every bit of the number. */
export function mixed(number: number): number {
  let hash = number;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
