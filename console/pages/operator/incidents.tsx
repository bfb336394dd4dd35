import { Badge, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/incidents.ts";
import { Choice } from "../../ui/choice.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { count } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Stats } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type Incidents = Responses["GET /v1/admin/incidents"];
type Incident = Incidents["incidents"][number];

const severities = {
  critical: { sign: "✕", color: "red" },
  warning: { sign: "▲", color: "yellow" },
  info: { sign: "●", color: "blue" },
} as const;

export function IncidentList(): ReactNode {
  const [wanted, setState] = useFilter("state");
  const state = wanted === "ended" ? "ended" : "open";
  const found = useGet<Incidents>(`/v1/admin/incidents?state=${state}&limit=200`, { everyMs: 10_000 });
  const filter = <Choice label={text.state} options={text.states} value={state} onChange={setState} />;
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={found}>
        {({ incidents, open }) => (
          <>
            <Stats
              of={(Object.keys(text.counts) as (keyof typeof text.counts)[]).map((severity) => ({
                label: text.counts[severity],
                value: count(open[severity]),
              }))}
            />
            <DataTable
              name="incidents"
              rows={incidents}
              columns={state === "ended" ? [...columns, ended] : columns}
              keyOf={({ id }) => `${id}`}
              filters={filter}
              empty={state === "open" ? text.none : text.noHistory}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const subjectOf = ({ deployment, node, account, gpu }: Incident): string =>
  deployment ? (deployment.name ?? deployment.id) : node ? (node.name ?? node.id) : (account?.email ?? gpu ?? "");

const columns: readonly Column<Incident>[] = [
  {
    name: text.severity,
    value: (one) => one.severity,
    show: ({ severity }) => (
      <Badge color={severities[severity].color} variant="light" tt="none">
        <span aria-hidden="true">{severities[severity].sign}</span> {severity}
      </Badge>
    ),
  },
  {
    name: text.summary,
    value: (one) => one.summary,
    show: (one) => (
      <Text size="sm" fw={600} maw={420}>
        {one.summary}
      </Text>
    ),
  },
  { name: text.subject, value: subjectOf },
  {
    name: text.advice,
    value: (one) => one.advice,
    show: (one) => (
      <Text size="sm" maw={420}>
        {one.advice}
      </Text>
    ),
  },
  { name: text.began, value: (one) => one.began_at, show: (one) => <Ago at={one.began_at} /> },
];

const ended: Column<Incident> = {
  name: text.ended,
  value: (one) => one.ended_at,
  show: (one) => <Ago at={one.ended_at} />,
};
