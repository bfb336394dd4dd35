import stringWidth from "string-width";

const gap = "  ";

/** Columns that may be cut: prose first, then names. Ids, keys, times and the first column are never cut. */
const prose = new Set([
  "NOTE",
  "REASON",
  "DESCRIPTION",
  "RATES",
  "COSTS",
  "WEIGHTS",
  "VALUES",
  "DEFAULT",
  "FOR",
  "REQUESTED",
  "COMPANY",
]);
const names = new Set(["NAME", "MODEL", "BASE", "REPO", "OWNER", "EMAIL", "ACCOUNT", "ACTOR", "SUBJECT"]);
const minWidth = 8;

/** Formats rows. Cuts prose, then names (marked by `…`) to fit into `maxWidth` columns, if that is possible. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  maxWidth = Number.POSITIVE_INFINITY,
): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => stringWidth(row[column] ?? ""))),
  );
  for (const cut of [prose, names])
    narrow(widths, maxWidth - gap.length * (head.length - 1), (n) => n > 0 && cut.has(head[n] ?? ""));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => padded(cell, widths[column] ?? 0))
      .join(gap)
      .trimEnd();
  return [line(head), ...rows.map(line)].join("\n");
}

/** Reduces the widest columns that may be cut, one character at a time. */
function narrow(widths: number[], maxWidth: number, mayBeCut: (column: number) => boolean): void {
  while (widths.reduce((sum, width) => sum + width, 0) > maxWidth) {
    const widest = Math.max(...widths.filter((_, n) => mayBeCut(n)));
    if (widest <= minWidth) return;
    widths[widths.findIndex((width, n) => mayBeCut(n) && width === widest)] = widest - 1;
  }
}

/** Pads or cuts to a width in terminal columns. A character takes zero, one or two. */
function padded(text: string, width: number): string {
  let rest = width - stringWidth(text);
  if (rest >= 0) return text + " ".repeat(rest);
  let cut = "";
  rest = width - 1;
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    const taken = stringWidth(segment);
    if (taken > rest) break;
    cut += segment;
    rest -= taken;
  }
  return `${cut}…${" ".repeat(Math.max(0, rest))}`;
}

/** Prices above 0 in USD, with their names. */
export const ratesText = (rates: Readonly<Record<string, number>>): string =>
  Object.entries(rates)
    .filter(([, usd]) => usd > 0)
    .map(([name, usd]) => `${name} ${usd}`)
    .join(", ") || "free";
