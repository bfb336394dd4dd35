/** Formats rows as CSV, with their names in the first line. */
export const csv = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, ...rows].map((line) => line.map(cellOf).join(",")).join("\r\n");

function cellOf(value: string): string {
  // Spreadsheets run cells that start like this as formulas; names come from other users.
  const isFormula = /^[=+\-@\t\r]/.test(value) && !/^-?\d+(\.\d+)?$/.test(value);
  const text = isFormula ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
