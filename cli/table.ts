import stringWidth from "string-width";

const gap = "  ";

/** What other commands are told by (ids, keys, times, names in a first column) is never cut: these are, the first set first. */
const prose = new Set(["NOTE", "REASON", "DESCRIPTION", "RATES", "VALUES", "DEFAULT", "ASKS FOR", "COMPANY"]);
const names = new Set(["NAME", "MODEL", "BASE", "REPO"]);
const leastCut = 8;

/**
 * Rows under a head, at most `room` columns wide where that can be had by cutting prose, then names (`…` where something
 * is missing); wider where it cannot.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  room = Number.POSITIVE_INFINITY,
): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => stringWidth(row[column] ?? ""))),
  );
  for (const cut of [prose, names])
    narrow(widths, room - gap.length * (head.length - 1), (n) => n > 0 && cut.has(head[n] ?? ""));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => padded(cell, widths[column] ?? 0))
      .join(gap)
      .trimEnd();
  return [line(head), ...rows.map(line)].join("\n");
}

/** Takes from the widest that may be cut, one column of the terminal at a time. */
function narrow(widths: number[], room: number, mayBeCut: (column: number) => boolean): void {
  while (widths.reduce((sum, width) => sum + width, 0) > room) {
    const broadest = Math.max(...widths.filter((_, n) => mayBeCut(n)));
    if (broadest <= leastCut) return;
    widths[widths.findIndex((width, n) => mayBeCut(n) && width === broadest)] = broadest - 1;
  }
}

/** In columns of a terminal, of which some characters take two and some none. */
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

/** The same for other programs, every cell whole. */
export const csv = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, ...rows].map((line) => line.map(cellOf).join(",")).join("\r\n");

function cellOf(value: string): string {
  // A spreadsheet runs what begins so, and names of models and keys are other people's.
  const isRun = /^[=+\-@\t\r]/.test(value) && !/^-?\d+(\.\d+)?$/.test(value);
  const text = isRun ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
