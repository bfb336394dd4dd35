const widest = 80;
const gap = "  ";

/** Rows under a head, at most 80 columns wide: the widest columns are cut, with `…` where something is missing. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length)));
  const room = widest - gap.length * (head.length - 1);
  while (widths.reduce((sum, width) => sum + width, 0) > room) {
    const broadest = widths.indexOf(Math.max(...widths));
    widths[broadest] = (widths[broadest] ?? 1) - 1;
  }
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => padded(cell, widths[column] ?? 0))
      .join(gap)
      .trimEnd();
  return [line(head), ...rows.map(line)].join("\n");
}

function padded(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, Math.max(0, width - 1))}…` : text.padEnd(width);
}
