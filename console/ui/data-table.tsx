import {
  ActionIcon,
  Box,
  Button,
  Card,
  Group,
  ScrollArea,
  Table,
  Text,
  TextInput,
  UnstyledButton,
} from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconChevronLeft, IconChevronRight, IconSearch } from "@tabler/icons-react";
import { type ReactNode, useDeferredValue, useMemo, useState } from "react";
import { useFilter } from "../app/place.ts";
import { csvOf } from "../domain/csv.ts";
import { text } from "../text/common.ts";
import { Empty } from "./page.tsx";

export interface Column<Row> {
  readonly name: string;
  /** Value for search, sorting and export. */
  value(row: Row): string | number | null;
  /** Cell content, if it differs from the value. */
  show?(row: Row): ReactNode;
  /** Left out where a card has little space. */
  readonly isMinor?: boolean;
  /** Only searched and exported: another column shows it. */
  readonly isHidden?: boolean;
}

/** Second line of a cell. */
export const Below = ({ children }: { children: ReactNode }): ReactNode => (
  <Text size="xs" c="dimmed">
    {children}
  </Text>
);

/** Column of buttons. */
export const actionsColumn = <Row,>(show: (row: Row) => ReactNode): Column<Row> => ({
  name: "",
  value: () => null,
  show,
});

interface DataTableProps<Row> {
  /** Plural noun: names the search field and the exported files. */
  readonly name: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly keyOf: (row: Row) => string;
  /** Shown if there are no rows: what the list is for and what to do. */
  readonly empty: ReactNode;
  readonly emptyAction?: ReactNode;
  /** Filters beside the search field. */
  readonly filters?: ReactNode;
  /** Without search and export. */
  readonly isShort?: boolean;
  /** Prefix of its filters in the address, where a page has several tables. */
  readonly id?: string;
  /** Where the server searches instead of the table: a search field of the page, in `filters`, or none. */
  readonly isSearchedByServer?: boolean;
  /** Below the rows: loads more of them. */
  readonly more?: ReactNode;
}

const rowsPerPage = 50;
/** A card is as high as six rows. */
const cardsPerPage = 20;
const signs = { ascending: " ▲", descending: " ▼" } as const;
type Order = keyof typeof signs;

/** Table with search, sorting, pages and export. The address stores search, order and page. On a phone, rows are cards. */
export function DataTable<Row>(props: DataTableProps<Row>): ReactNode {
  const {
    name,
    rows,
    columns,
    keyOf,
    empty,
    emptyAction,
    filters,
    isShort = false,
    id = "",
    isSearchedByServer,
    more,
  } = props;
  const shown = columns.filter(({ isHidden }) => !isHidden);
  const isPhone = useMediaQuery("(max-width: 48em)");
  const [urlSearch, setUrlSearch] = useFilter(`${id}q`);
  const [sort, setSort] = useFilter(`${id}sort`);
  const [pageText, setPage] = useFilter(`${id}page`);
  const [search, setSearch] = useState(urlSearch);
  // Typing stays quick while a long list is searched.
  const wanted = useDeferredValue(isSearchedByServer ? "" : search);
  const found = useMemo(() => matching(rows, columns, wanted), [rows, columns, wanted]);
  const sorted = useMemo(() => inOrder(found, columns, sort), [found, columns, sort]);

  const perPage = isPhone ? cardsPerPage : rowsPerPage;
  const pages = Math.max(1, Math.ceil(sorted.length / perPage));
  const page = Math.min(Math.max(1, Number(pageText) || 1), pages);
  const seen = sorted.slice((page - 1) * perPage, page * perPage);
  const order = (column: string): Order | undefined =>
    column === "" ? undefined : sort === column ? "ascending" : sort === `-${column}` ? "descending" : undefined;
  const toggle = (column: string) => setSort(sort === column ? `-${column}` : sort === `-${column}` ? "" : column);
  const onSearch = (value: string) => {
    setSearch(value);
    setUrlSearch(value);
    if (pageText !== "") setPage("");
  };
  if (rows.length === 0)
    return (
      <>
        {filters && (
          <Group gap="sm" align="flex-end">
            {filters}
          </Group>
        )}
        <Empty action={emptyAction}>{empty}</Empty>
      </>
    );

  return (
    <Box>
      {!isShort && (
        <Group gap="sm" mb="sm" align="flex-end">
          {!isSearchedByServer && (
            <TextInput
              type="search"
              size="sm"
              placeholder={text.search}
              aria-label={text.searchOf(name)}
              leftSection={<IconSearch size={16} />}
              value={search}
              onChange={(event) => onSearch(event.currentTarget.value)}
            />
          )}
          {filters}
          <Text size="sm" c="dimmed" lh="36px" role="status">
            {isSearchedByServer ? text.rows(rows.length, Boolean(more)) : text.shownOf(found.length, rows.length)}
          </Text>
          <Group gap={4} ml="auto" h={36}>
            <Button
              size="compact-xs"
              variant="subtle"
              color="gray"
              onClick={() => save(`${name}.csv`, "text/csv", csvOf(sorted, columns))}
            >
              {text.csv}
            </Button>
            <Button
              size="compact-xs"
              variant="subtle"
              color="gray"
              onClick={() => save(`${name}.json`, "application/json", JSON.stringify(sorted, null, 2))}
            >
              {text.json}
            </Button>
          </Group>
        </Group>
      )}
      {isPhone ? (
        <Cards rows={seen} columns={shown} keyOf={keyOf} />
      ) : (
        <ScrollArea type="auto">
          <Table highlightOnHover verticalSpacing="xs" aria-label={name}>
            <Table.Thead>
              <Table.Tr>
                {shown.map((column) => (
                  <Table.Th
                    key={column.name}
                    scope="col"
                    className={isNumber(column, rows) ? "number" : ""}
                    aria-sort={order(column.name)}
                  >
                    {column.name === "" ? (
                      <span className="hidden-text">{text.actions}</span>
                    ) : (
                      <UnstyledButton fz="sm" fw={600} onClick={() => toggle(column.name)}>
                        {column.name}
                        {signs[order(column.name) as Order] ?? ""}
                      </UnstyledButton>
                    )}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {seen.map((row) => (
                <Table.Tr key={keyOf(row)}>
                  {shown.map((column) => (
                    <Table.Td key={column.name} className={isNumber(column, rows) ? "number" : ""}>
                      {column.show ? column.show(row) : column.value(row)}
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </ScrollArea>
      )}
      {more}
      {sorted.length === 0 && <Empty>{text.noMatches(search)}</Empty>}
      {pages > 1 && (
        <Group justify="flex-end" gap="xs" mt="sm" component="nav" aria-label={text.page.of(page, pages)}>
          <ActionIcon
            variant="default"
            disabled={page === 1}
            aria-label={text.page.previous}
            onClick={() => setPage(`${page - 1}`)}
          >
            <IconChevronLeft size={16} />
          </ActionIcon>
          <Text size="sm">{text.page.of(page, pages)}</Text>
          <ActionIcon
            variant="default"
            disabled={page === pages}
            aria-label={text.page.next}
            onClick={() => setPage(`${page + 1}`)}
          >
            <IconChevronRight size={16} />
          </ActionIcon>
        </Group>
      )}
    </Box>
  );
}

function Cards<Row>({ rows, columns, keyOf }: Pick<DataTableProps<Row>, "rows" | "columns" | "keyOf">): ReactNode {
  return (
    <ul className="cards">
      {rows.map((row) => {
        const fields = columns
          .filter(({ isMinor }) => !isMinor)
          .map(({ name, show, value }) => ({ name, content: show ? show(row) : value(row) }))
          .filter(({ content }) => content !== null && content !== undefined && content !== "" && content !== false);
        return (
          <Card key={keyOf(row)} component="li" withBorder padding="sm">
            <dl className="facts">
              {fields.map(
                ({ name, content }) =>
                  name !== "" && (
                    <div key={name}>
                      <dt>{name}</dt>
                      <dd>{content}</dd>
                    </div>
                  ),
              )}
            </dl>
            {fields.map(
              ({ name, content }) =>
                name === "" && (
                  <Box key="actions" mt="xs" fz="sm">
                    {content}
                  </Box>
                ),
            )}
          </Card>
        );
      })}
    </ul>
  );
}

const isNumber = <Row,>(column: Column<Row>, rows: readonly Row[]): boolean =>
  rows.some((row) => typeof column.value(row) === "number");

function matching<Row>(rows: readonly Row[], columns: readonly Column<Row>[], search: string): readonly Row[] {
  const words = search.trim().toLowerCase();
  if (words === "") return rows;
  return rows.filter((row) =>
    columns.some((one) =>
      String(one.value(row) ?? "")
        .toLowerCase()
        .includes(words),
    ),
  );
}

const collator = new Intl.Collator("en", { numeric: true });

function inOrder<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sort: string): readonly Row[] {
  const by = columns.find((one) => one.name !== "" && one.name === sort.replace(/^-/, ""));
  if (!by) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  return rows
    .map((row) => ({ row, value: by.value(row) }))
    .sort((a, b) => sign * compare(a.value, b.value))
    .map(({ row }) => row);
}

function compare(a: string | number | null, b: string | number | null): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a ?? ""), String(b ?? ""));
}

export function save(name: string, type: string, content: string | Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
