// Usage records that could not be verified: an operator bills or discards them.
import { Badge, Group, Select, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { usePages, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { text as all } from "../../text/operator-money.ts";
import { Code } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { More } from "../../ui/filters.tsx";
import { Link } from "../../ui/link.tsx";
import { NoteAct } from "../../ui/note-act.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

const text = all.quarantine;
const path = "/v1/admin/usage-quarantine";

type QuarantinePage = Responses["GET /v1/admin/usage-quarantine"];
type Quarantined = QuarantinePage["records"][number];
type Host = QuarantinePage["hosts"][number];

export function Quarantine(): ReactNode {
  const [host, setHost] = useFilter("host");
  const pages = usePages<QuarantinePage>(path, { host_id: host, limit: "100" }, { everyMs: 30_000 });
  return (
    <Section about={text.about}>
      <Loaded query={pages}>
        {({ pages: loaded }) => (
          <DataTable
            name="quarantine"
            id="quarantine-"
            rows={loaded.flatMap(({ records }) => records)}
            columns={columns}
            keyOf={({ id }) => id}
            isSearchedByServer
            filters={<HostFilter hosts={loaded[0]?.hosts ?? []} value={host} onChange={setHost} />}
            empty={text.empty}
            more={pages.hasNextPage && <More of={pages} />}
          />
        )}
      </Loaded>
    </Section>
  );
}

interface HostFilterProps {
  readonly hosts: readonly Host[];
  readonly value: string;
  readonly onChange: (host: string) => void;
}

function HostFilter({ hosts, value, onChange }: HostFilterProps): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  if (hosts.length === 0) return null;
  const chosen = hosts.find(({ host_id: id }) => id === value);
  const named = hosts.filter(({ host_id: id }) => id !== "");
  return (
    <>
      <Select
        aria-label={text.hostFilter}
        data={[
          { value: "", label: text.allHosts },
          ...named.map(({ host_id: id, open, dropped }) => ({
            value: id,
            label: `${id}: ${text.open(open, dropped)}`,
          })),
        ]}
        value={value}
        allowDeselect={false}
        onChange={(id) => onChange(id ?? "")}
        w={320}
      />
      {chosen && (
        <NoteAct
          label={text.discardAll}
          title={text.discardAllTitle(value)}
          body={text.discardAllBody(chosen.open)}
          color="red"
          variant="light"
          command={`stoker admin quarantine discard-host ${value} --note TEXT`}
          done={text.discarded}
          onAct={async (note) => {
            await api.call("POST", `${path}/discard`, { host_id: value, note });
            onChange("");
            await refresh(path, "/v1/admin/money");
          }}
        />
      )}
    </>
  );
}

const columns: readonly Column<Quarantined>[] = [
  {
    name: text.request,
    value: ({ request_id: id }) => id,
    show: ({ request_id: id, attempt }) => (
      <>
        <Link to={`/any-request-log/${encodeURIComponent(id)}`} inherit>
          <code>{id}</code>
        </Link>
        <Text size="xs" c="dimmed">
          {text.attempt(attempt)}
        </Text>
      </>
    ),
  },
  {
    name: all.host,
    value: ({ host_id: id }) => id || text.unknownHost,
    show: ({ host_id: id }) =>
      id ? (
        <Link to={`/nodes/${encodeURIComponent(id)}`} inherit>
          {id}
        </Link>
      ) : (
        text.unknownHost
      ),
  },
  {
    name: text.problem,
    value: ({ problem }) => problem,
    show: ({ problem, why }) => (
      <>
        <Badge color="yellow" variant="light" tt="none" className="status">
          {problem}
        </Badge>
        <Text size="xs" maw={320} className="verbatim">
          {why}
        </Text>
      </>
    ),
  },
  {
    name: text.meaning,
    value: ({ problem }) => text.problems[problem] ?? "",
    show: ({ problem }) => (
      <Text size="sm" maw={360}>
        {text.problems[problem]}
      </Text>
    ),
  },
  { name: text.at, value: ({ at }) => at, show: ({ at }) => <Ago at={at} /> },
  {
    name: text.record,
    value: ({ record }) => record,
    show: ({ record, request_id: id }) => (
      <Dialog label={text.showRecord} title={id} isReading>
        {() => <Code value={pretty(record)} label={text.record} />}
      </Dialog>
    ),
  },
  actionsColumn<Quarantined>((one) => <Decisions one={one} />),
];

function pretty(record: string): string {
  try {
    return JSON.stringify(JSON.parse(record), null, 2);
  } catch {
    return record;
  }
}

function Decisions({ one: { id, request_id: request } }: { one: Quarantined }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const decide = (verb: "release" | "discard") => async (note: string) => {
    await api.call("POST", `${path}/${encodeURIComponent(id)}/${verb}`, { note });
    await refresh(path, "/v1/admin/money");
  };
  return (
    <Group gap="xs" className="row-actions">
      <NoteAct
        label={text.release}
        title={text.releaseTitle(request)}
        body={text.releaseBody}
        command={`stoker admin quarantine release ${id} --note TEXT`}
        done={text.released}
        onAct={decide("release")}
      />
      <NoteAct
        label={text.discard}
        title={text.discardTitle(request)}
        body={text.discardBody}
        color="red"
        variant="light"
        command={`stoker admin quarantine discard ${id} --note TEXT`}
        done={text.discarded}
        onAct={decide("discard")}
      />
    </Group>
  );
}
