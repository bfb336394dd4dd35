// Table with search, sorting and export. The URL stores the search and order.
import { html, type View } from "../html.ts";
import { useFilter } from "../place.ts";
import { csvOf } from "./csv.ts";

export interface Column<Row> {
  readonly name: string;
  /** Value for search, sorting and export. */
  value(row: Row): string | number | null;
  /** Cell content, if it differs from the value. */
  show?(row: Row): View;
}

/** Column of buttons. */
export const actions = <Row>(show: (row: Row) => View): Column<Row> => ({ name: "", value: () => null, show });

interface TableProps<Row> {
  readonly name: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly keyOf: (row: Row) => string;
  /** Shown if there are no rows. */
  readonly empty: View;
}

const signs = { ascending: " ▲", descending: " ▼", none: "" };

/** As many as a browser lays out without being noticed; a search finds the others. */
const maxRows = 500;

export function Table<Row>({ name, rows, columns, keyOf, empty }: TableProps<Row>): View {
  const [search, setSearch] = useFilter("q");
  const [sort, setSort] = useFilter("sort");
  if (rows.length === 0) return html`<p class="quiet">${empty}</p>`;

  const words = search.toLowerCase();
  const found = rows.filter((row) =>
    columns.some((one) =>
      String(one.value(row) ?? "")
        .toLowerCase()
        .includes(words),
    ),
  );
  const by = columns.find((one) => one.name === sort.replace(/^-/, ""));
  const sorted = by
    ? found.toSorted((a, b) => compare(by.value(a), by.value(b)) * (sort.startsWith("-") ? -1 : 1))
    : found;
  const toggleSort = (column: string) => setSort(sort === column ? `-${column}` : sort === `-${column}` ? "" : column);
  const order = (column: string) =>
    column === "" ? undefined : sort === column ? "ascending" : sort === `-${column}` ? "descending" : undefined;
  const isNumber = (column: Column<Row>) => typeof column.value(rows[0] as Row) === "number";

  return html`<div class="bar">
      <input type="search" placeholder="Search (/)" aria-label=${`Search ${name}`} value=${search}
        onInput=${(event: { currentTarget: HTMLInputElement }) => setSearch(event.currentTarget.value)} />
      <span class="quiet">${found.length} of ${rows.length}</span>
      <button type="button" class="second small" onClick=${() => save(`${name}.csv`, "text/csv", csvOf(sorted, columns))}>CSV</button>
      <button type="button" class="second small"
        onClick=${() => save(`${name}.json`, "application/json", JSON.stringify(sorted, null, 2))}>JSON</button>
    </div>
    <div class="wide"><table>
      <thead><tr>${columns.map(
        (column) => html`<th scope="col" class=${isNumber(column) ? "n" : ""} aria-sort=${order(column.name)}>
          ${column.name && html`<button type="button" class="link" onClick=${() => toggleSort(column.name)}>${column.name}${signs[order(column.name) ?? "none"]}</button>`}</th>`,
      )}</tr></thead>
      <tbody>${sorted
        .slice(0, maxRows)
        .map(
          (row) =>
            html`<tr key=${keyOf(row)}>${columns.map(
              (column) =>
                html`<td class=${isNumber(column) ? "n" : ""}>${column.show ? column.show(row) : column.value(row)}</td>`,
            )}</tr>`,
        )}</tbody>
    </table></div>
    ${sorted.length === 0 && html`<p class="quiet">No matches for “${search}”.</p>`}
    ${sorted.length > maxRows && html`<p class="quiet">The first ${maxRows} rows are shown. Use the search for others.</p>`}`;
}

function compare(a: string | number | null, b: string | number | null): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""));
}

function save(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
