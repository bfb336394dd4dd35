// Which idle sequence serves a prompt: the one whose cache begins most like it, unless that would throw away more than
// it saves, because every chat shares its template's first tokens. Then an empty or the longest unused one. Pure.
export interface IdleSequence {
  readonly cachedTokens: readonly number[];
  /** Rises with each use. */
  readonly lastUsed: number;
}

export function commonPrefix(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length);
  let length = 0;
  while (length < end && a[length] === b[length]) length++;
  return length;
}

/** Undefined when none is idle. */
export function chooseSequence<S extends IdleSequence>(idle: readonly S[], prompt: readonly number[]): S | undefined {
  const ranked = idle
    .map((sequence) => ({ sequence, prefix: commonPrefix(sequence.cachedTokens, prompt) }))
    .sort((a, b) => b.prefix - a.prefix || a.sequence.lastUsed - b.sequence.lastUsed);
  const best = ranked[0];
  if (!best) return undefined;
  const held = best.sequence.cachedTokens.length;
  if (best.prefix > 0 && best.prefix * 2 >= Math.min(held, prompt.length)) return best.sequence;
  return [...idle].sort(
    (a, b) => Math.sign(a.cachedTokens.length) - Math.sign(b.cachedTokens.length) || a.lastUsed - b.lastUsed,
  )[0];
}
