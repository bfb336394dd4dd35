interface CsvColumn<Row> {
  readonly name: string;
  value(row: Row): string | number | null;
}

export function csvOf<Row>(rows: readonly Row[], columns: readonly CsvColumn<Row>[]): string {
  const lines = [
    columns.map((one) => cell(one.name)),
    ...rows.map((row) => columns.map((one) => cell(one.value(row)))),
  ];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}

function cell(value: string | number | null): string {
  if (typeof value === "number") return String(value);
  // Spreadsheets run cells that start like this as formulas; names come from other users.
  const text = /^[=+\-@\t\r]/.test(value ?? "") ? `'${value}` : (value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
