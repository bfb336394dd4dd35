// A text cut into pieces that are spoken one after the other: sentences, and parts of long ones. Pure.
// The first piece is short, so that its sound leaves while the rest is made.
const firstLength = 120;
const longest = 250;
const sentences = new Intl.Segmenter("en", { granularity: "sentence" });
/** After these a full stop ends no sentence. */
const abbreviation = /(?:^|\s)(?:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|No|vs|approx|e\.g|i\.e|[A-Z])\.\s*$/;

export function speechPieces(text: string): readonly string[] {
  const pieces: string[] = [];
  let open = "";
  for (const { segment } of sentences.segment(text)) {
    open += segment;
    // An abbreviation with what is before it: looking at all of what is open would take the square of its length.
    if (abbreviation.test(open.trimEnd().slice(-8))) continue;
    pieces.push(...cutLong(open, pieces.length === 0));
    open = "";
  }
  pieces.push(...cutLong(open, pieces.length === 0));
  return pieces;
}

function cutLong(sentence: string, isFirst: boolean): readonly string[] {
  const pieces: string[] = [];
  let rest = sentence.replace(/\s+/g, " ").trim();
  while (rest !== "") {
    const maxLength = isFirst && pieces.length === 0 ? firstLength : longest;
    const end = rest.length <= maxLength ? rest.length : cutAt(rest, maxLength, [", ", "; ", ": ", " — ", ") "]);
    pieces.push(rest.slice(0, end).trim());
    rest = rest.slice(end).trim();
  }
  return pieces.filter((piece) => piece !== "");
}

/** After the last of the marks that fits, else the last word, else anywhere. */
export function cutAt(text: string, maxLength: number, marks: readonly string[]): number {
  const head = text.slice(0, maxLength);
  const clause = Math.max(...marks.map((mark) => head.lastIndexOf(mark)));
  if (clause > maxLength / 4) return clause + 1;
  const word = head.lastIndexOf(" ");
  // Never between the halves of one character.
  return word > 0 ? word : maxLength - (/[\uD800-\uDBFF]$/.test(head) ? 1 : 0);
}
