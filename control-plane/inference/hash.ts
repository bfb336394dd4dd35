// Fast hashes of 32 bits, for tables and choices. Not for secrets: they are easy to invert.

export const hashSeed = 0x811c9dc5;

/** FNV-1a. */
export function hashText(text: string, seed: number): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** Finaliser of MurmurHash3: every bit of the result depends on every bit of the number. */
export function mixed(number: number): number {
  let hash = number;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
