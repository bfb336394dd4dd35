// Chooses the idle sequence that serves a prompt. Only caches of the prompt's own scope count as a match: what another
// tenant left in a sequence never decides. First choice is the best match, unless it would discard more than it saves,
// because every chat shares its template's first tokens. Then a sequence beside those that run, so that a batch stays one
// pass over the weights (see `rounds.ts`), then an empty or the longest unused one; a cache kept under a key comes last. Pure.
export interface IdleSequence {
  /** Its number in the context. */
  readonly place: number;
  readonly cachedTokens: readonly number[];
  /** Scope of the requests whose tokens it holds. */
  readonly cacheScope?: string;
  readonly lastUsed: number;
  /** Key under which its cache was left, within its scope; undefined = not kept. */
  readonly cacheKey?: string | undefined;
}

export function commonPrefix(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length);
  let length = 0;
  while (length < end && a[length] === b[length]) length++;
  return length;
}

/** `running`: numbers of the sequences in use. Undefined when none is idle. */
export function chooseSequence<S extends IdleSequence>(
  idle: readonly S[],
  running: ReadonlySet<number>,
  prompt: readonly number[],
  cacheKey?: string,
  cacheScope = "",
): S | undefined {
  const isInScope = ({ cacheScope: scope = "" }: S) => scope === cacheScope;
  const isOwn = (one: S) => cacheKey !== undefined && one.cacheKey === cacheKey && isInScope(one);
  const isKept = (one: S) => one.cacheKey !== undefined && !isOwn(one);
  const ranked = idle
    .map((sequence) => ({
      sequence,
      prefix: isInScope(sequence) ? commonPrefix(sequence.cachedTokens, prompt) : 0,
    }))
    .sort((a, b) => b.prefix - a.prefix || a.sequence.lastUsed - b.sequence.lastUsed);
  const best = ranked[0];
  if (!best) return undefined;
  const own = ranked.find(({ sequence, prefix }) => prefix === best.prefix && prefix > 0 && isOwn(sequence));
  if (own) return own.sequence;
  const held = best.sequence.cachedTokens.length;
  const isWorthIt = best.prefix > 0 && best.prefix * 2 >= Math.min(held, prompt.length);
  // Going on where a kept cache ends takes nothing from it.
  if (isWorthIt && (!isKept(best.sequence) || best.prefix === held)) return best.sequence;
  return [...idle].sort(
    (a, b) =>
      Number(isKept(a)) - Number(isKept(b)) ||
      neighbours(b, running) - neighbours(a, running) ||
      Math.sign(a.cachedTokens.length) - Math.sign(b.cachedTokens.length) ||
      a.lastUsed - b.lastUsed,
  )[0];
}

/** None: one more pass over the weights for each batch; one: as many as before; two: a gap is closed. */
const neighbours = ({ place }: IdleSequence, running: ReadonlySet<number>): number =>
  Number(running.has(place - 1)) + Number(running.has(place + 1));
