// Locates tokens in their text. Tokenizers change case, accents and spaces; letters keep their order,
// so each token is searched, without these, from the end of the last one. Pure.
export interface Span {
  /** In characters (code points) of the text. */
  readonly start: number;
  readonly end: number;
  /** It goes on where the last token of the same word ended. */
  readonly isContinued: boolean;
}

/** Maximum text to skip after a token that was not found. */
const reach = 64;

/** `texts`: each token as text, `##` or a leading space marking its position in its word; unknown ones as undefined. */
export function alignTokens(text: string, texts: readonly (string | undefined)[]): Span[] {
  const { folded, positions } = fold(text);
  const spans: Span[] = [];
  let at = 0;
  for (const [index, token] of texts.entries()) {
    while (at < folded.length && isSpace(folded[at])) at += 1;
    const wanted = token === undefined ? undefined : bare(token);
    const found = wanted === undefined || wanted === "" ? -1 : folded.indexOf(wanted, at);
    const isThere = found >= 0 && found - at <= reach;
    const from = isThere ? found : at;
    const to = isThere ? found + (wanted as string).length : endOfUnknown(folded, at, texts, index);
    const start = positions[from] ?? positions.at(-1) ?? 0;
    const end = to > from ? (positions[to - 1] ?? 0) + 1 : start;
    const last = spans.at(-1);
    spans.push({
      start,
      end,
      isContinued: token?.startsWith("##") === true || (last?.end === start && isWordPart(token)),
    });
    at = Math.max(at, to);
  }
  return spans;
}

const isSpace = (character: string | undefined) => character !== undefined && /\s/.test(character);

/** A piece after which another follows without a space, both of letters. */
const isWordPart = (token: string | undefined) => token !== undefined && /^[\p{L}\p{N}]/u.test(token);

/** Up to where the next known token begins, or to the end of the word. */
function endOfUnknown(folded: string, at: number, texts: readonly (string | undefined)[], index: number): number {
  let end = at;
  while (end < folded.length && !isSpace(folded[end])) end += 1;
  const next = texts[index + 1];
  const following = next === undefined ? "" : bare(next);
  const found = following === "" ? -1 : folded.indexOf(following, at + 1);
  return found > at && found < end ? found : end;
}

const bare = (token: string) => fold(token.replace(/^##/, "").replace(/▁/g, " ")).folded.trim();

/** Lower case without accents, and for each unit of that the character it came from. */
function fold(text: string): { readonly folded: string; readonly positions: readonly number[] } {
  let folded = "";
  const positions: number[] = [];
  let at = 0;
  for (const character of text) {
    const plain = character.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    for (let i = 0; i < plain.length; i++) positions.push(at);
    folded += plain;
    at += 1;
  }
  return { folded, positions };
}

/** Slices by code points, the unit of spans. */
export const sliceOf = (text: string, start: number, end: number) => [...text].slice(start, end).join("");
