import { Button, Group, Progress, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useFilter } from "../../app/place.ts";
import { logPage } from "../../domain/request-log.ts";
import { type Line, sumOf } from "../../domain/usage.ts";
import { text } from "../../text/usage.ts";
import { Choice } from "../../ui/choice.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { count, percent, usd } from "../../ui/format.ts";
import { LinkButton } from "../../ui/link.tsx";
import { Section } from "../../ui/page.tsx";

interface UsageTableProps {
  /** One for each day and subject. Empty: there are only totals. */
  readonly lines: readonly Line[];
  readonly totals: readonly Line[];
  /** Column of the subject. */
  readonly name: string;
  readonly hasLimits?: boolean;
  /** Filter of the request log that finds its requests. */
  readonly link: (line: Line) => Readonly<Record<string, string>> | undefined;
  /** Shows only this one. */
  readonly onChoose?: ((id: string) => void) | undefined;
  /** Further buttons of a row. */
  readonly more?: (line: Line) => ReactNode;
  readonly empty?: string;
}

export function UsageTable(props: UsageTableProps): ReactNode {
  const { lines, totals, name, hasLimits = false, link, onChoose, more, empty = text.empty } = props;
  const [kind, setKind] = useFilter("rows");
  const isByDay = kind === "days" && lines.length > 0;
  const all = sumOf(totals).cost;
  const columns: readonly Column<Line>[] = [
    ...(isByDay ? [{ name: text.columns.day, value: (line: Line) => line.day }] : []),
    { name, value: (line) => line.name },
    { name: text.columns.requests, value: (line) => line.requests, show: (line) => count(line.requests) },
    { name: text.columns.input, value: (line) => line.input, show: (line) => count(line.input) },
    { name: text.columns.output, value: (line) => line.output, show: (line) => count(line.output) },
    { name: text.columns.cost, value: (line) => line.cost, show: (line) => usd(line.cost) },
    ...(hasLimits
      ? [
          {
            name: text.columns.limit,
            value: (line: Line) => line.limit,
            show: (line: Line) => (line.limit === null ? "–" : usd(line.limit)),
          },
        ]
      : []),
    ...(isByDay
      ? []
      : [
          {
            name: text.columns.share,
            value: (line: Line) => (all > 0 ? line.cost / all : 0),
            show: (line: Line) => <Share of={all > 0 ? line.cost / all : 0} />,
            isMinor: true,
          },
          actionsColumn<Line>((line) => {
            const filter = link(line);
            return (
              <Group gap="xs" className="row-actions">
                {onChoose && line.id !== "" && (
                  <Button size="xs" variant="default" onClick={() => onChoose(line.id)}>
                    {text.only}
                  </Button>
                )}
                {filter && Object.values(filter).every((value) => value !== "") && (
                  <LinkButton to={logPage(filter)} size="xs" variant="default">
                    {text.requestsOf}
                  </LinkButton>
                )}
                {more?.(line)}
              </Group>
            );
          }),
        ]),
  ];
  return (
    <Section>
      <DataTable
        name={isByDay ? "usage-by-day" : "usage"}
        rows={isByDay ? lines.toReversed() : totals}
        columns={columns}
        keyOf={(line) => `${line.day} ${line.id}`}
        filters={
          lines.length > 0 && <Choice label={text.rows} options={text.rowKinds} value={kind} onChange={setKind} />
        }
        empty={empty}
      />
    </Section>
  );
}

function Share({ of }: { of: number }): ReactNode {
  return (
    <Group gap={6} wrap="nowrap" justify="flex-end">
      <Progress value={100 * of} size="sm" w={70} aria-label={percent(of)} />
      <Text size="sm" w={48} ta="right" className="nowrap">
        {percent(of)}
      </Text>
    </Group>
  );
}
