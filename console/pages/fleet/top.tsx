// What uses the most now, read again every few seconds.
import { Group, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { pathOfAccount, pathOfDeployment, pathOfNode } from "../../domain/fleet.ts";
import { text } from "../../text/fleet-top.ts";
import { Choice } from "../../ui/choice.tsx";
import { Command } from "../../ui/code.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { count, percent, usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";

type Top = Responses["GET /v1/admin/top"];
type Row = Top["rows"][number];
type Kind = keyof typeof text.kinds;

const isKind = (word: string): word is Kind => Object.hasOwn(text.kinds, word);

export function TopPage(): ReactNode {
  const [wanted, setBy] = useFilter("by");
  const [order, setOrder] = useFilter("order");
  const by = isKind(wanted) ? wanted : "model";
  const query = new URLSearchParams({ by, limit: "200", ...(order === "" ? {} : { order }) });
  const top = useGet<Top>(`/v1/admin/top?${query}`, { everyMs: 3000 });
  return (
    <Page title={text.title} about={text.about}>
      <Section>
        <Stack gap="md">
          <Group gap="sm" justify="space-between">
            <Group gap="sm">
              <Choice
                label={text.by}
                options={text.kinds}
                value={by}
                onChange={(value) => setBy(value === "model" ? "" : value)}
              />
              <Choice
                label={text.order}
                options={text.orders}
                value={order || (by === "host" ? "gpu_use" : "requests")}
                onChange={setOrder}
              />
            </Group>
            <Command value={text.command(by, order)} />
          </Group>
          <Loaded query={top}>
            {({ rows }) => (
              <DataTable
                name={text.kinds[by].toLowerCase()}
                rows={rows}
                columns={columnsOf(by)}
                keyOf={(row) => `${row.id} ${row.name}`}
                empty={text.empty}
              />
            )}
          </Loaded>
        </Stack>
      </Section>
    </Page>
  );
}

function pathOf(by: Kind, { id }: Row): string | undefined {
  if (id === null) return undefined;
  if (by === "host") return pathOfNode(id);
  return by === "customer" ? pathOfAccount(id) : pathOfDeployment(id);
}

const figure = (value: number | null): string => (value === null ? text.unknown : count(Math.round(value * 10) / 10));

function columnsOf(by: Kind): readonly Column<Row>[] {
  const named: Column<Row> = {
    name: text.names[by],
    value: (row) => row.name,
    show: (row) => {
      const path = pathOf(by, row);
      return path ? (
        <Link to={path} fw={600}>
          {row.name}
        </Link>
      ) : (
        row.name
      );
    },
  };
  const owner: Column<Row> = {
    name: text.owner,
    value: (row) => row.account?.email ?? "",
    show: (row) => row.account && <Link to={pathOfAccount(row.account.uid)}>{row.account.email}</Link>,
  };
  const rate = (name: string, of: (row: Row) => number | null): Column<Row> => ({
    name,
    value: of,
    show: (row) => figure(of(row)),
  });
  const gpus: readonly Column<Row>[] = [
    { name: text.gpus, value: (row) => row.gpus_held },
    { name: text.use, value: (row) => row.gpu_use_ratio, show: (row) => percent(row.gpu_use_ratio) },
    { name: text.running, value: (row) => row.running_requests },
    { name: text.waiting, value: (row) => row.waiting_requests },
  ];
  const tokens = rate(text.tokens, (row) => row.tokens_per_second);
  if (by === "host") return [named, ...gpus, tokens];
  return [
    named,
    ...(by === "customer" ? [] : [owner]),
    ...(by === "deployment" ? [{ name: text.kind, value: (row: Row) => row.kind ?? "" }] : []),
    rate(text.requests, (row) => row.requests_per_second),
    rate(text.errors, (row) => row.errors_per_second),
    tokens,
    ...gpus,
    {
      name: text.spend,
      value: (row) => row.spend_last_hour_usd,
      show: (row) => (row.spend_last_hour_usd === null ? text.unknown : usd(row.spend_last_hour_usd)),
    },
  ];
}
