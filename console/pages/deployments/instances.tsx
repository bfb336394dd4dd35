import { Anchor, Code } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import type { Deployment } from "../../domain/deployment.ts";
import { type InstanceHistory, instancesIn } from "../../domain/phases.ts";
import { text } from "../../text/deployments.ts";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { eventsPath } from "./phase-strip.tsx";

const words = text.detail.instances;

export function Instances({ one, onLog }: { one: Deployment; onLog: (instance: string) => void }): ReactNode {
  const events = useGet<Responses["GET /deploy/{deploy_id}/events"]>(eventsPath(one.deploy_id), { everyMs: 3000 });
  return (
    <Section title={words.title} about={words.about}>
      <Loaded query={events}>
        {({ events: all }) => (
          <DataTable
            name="instances"
            id="i-"
            rows={instancesIn(all)}
            columns={columnsWith(onLog)}
            keyOf={({ id }) => id}
            empty={words.empty}
          />
        )}
      </Loaded>
    </Section>
  );
}

const columnsWith = (onLog: (instance: string) => void): readonly Column<InstanceHistory>[] => [
  { name: words.id, value: ({ id }) => id, show: ({ id }) => <Code>{id}</Code> },
  { name: words.phase, value: ({ phase }) => phase, show: ({ phase }) => <Status of={phase} /> },
  {
    name: words.since,
    value: ({ sinceMs }) => new Date(sinceMs).toISOString(),
    show: ({ sinceMs }) => <Ago at={sinceMs / 1000} />,
  },
  {
    name: words.placed,
    value: ({ placedMs }) => new Date(placedMs).toISOString(),
    show: ({ placedMs }) => <Ago at={placedMs / 1000} />,
    isMinor: true,
  },
  { name: words.restarts, value: ({ restarts }) => restarts },
  { name: words.reason, value: ({ reason }) => reason },
  actionsColumn(({ id }) => (
    <Anchor component="button" type="button" size="sm" onClick={() => onLog(id)}>
      {words.logs}
    </Anchor>
  )),
];
