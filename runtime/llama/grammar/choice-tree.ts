// One of many, as a tree of their common beginnings: llama.cpp holds each token against every alternative that is still
// open, so a thousand values that begin alike are one as long as they do.

type Row = readonly string[];

/**
 * GBNF of one of `rows`, each a row of expressions that follow each other. Matches what the rows side by side match.
 * `write` makes an expression of a part of a row.
 */
export function choiceOf(rows: readonly Row[], write = (parts: Row) => parts.join(" ")): string {
  return branch(rows, 0, write) || '""';
}

/** Returns the rest of rows that are equal before `from`; may be empty. */
function branch(rows: readonly Row[], from: number, write: (parts: Row) => string): string {
  const [first = []] = rows;
  let end = from;
  while (end < first.length && rows.every((row) => row[end] === first[end])) end++;
  const next = Map.groupBy(
    rows.filter((row) => row.length > end),
    (row) => row[end],
  );
  const shared = end > from ? write(first.slice(from, end)) : "";
  if (next.size === 0) return shared;
  const rest = [...next.values()].map((alike) => branch(alike, end, write)).join(" | ");
  const mayEnd = rows.some((row) => row.length === end);
  if (shared === "" && !mayEnd) return rest;
  return `${shared} (${rest})${mayEnd ? "?" : ""}`.trim();
}
