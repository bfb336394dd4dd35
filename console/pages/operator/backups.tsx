// The control plane's backups with their age, and restores of the database with what came back.
import { Code as CodeText, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { text } from "../../text/operator-backups.ts";
import { Command } from "../../ui/code.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { bytes, count, inUtc, usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section, Stats } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago, useNow } from "../../ui/time.tsx";

type Backups = Responses["GET /v1/admin/backups"];
type Restores = Responses["GET /v1/admin/restores"];
type Restore = Restores["restores"][number];

const hourMs = 3_600_000;
/** As of the incident `database_backup_stale`. */
const maxAgeMs = 26 * hourMs;
const maxTrialAgeMs = 8 * 24 * hourMs;

export function Backups(): ReactNode {
  const backups = useGet<Backups>("/v1/admin/backups", { everyMs: 60_000 });
  const restores = useGet<Restores>("/v1/admin/restores", { everyMs: 30_000 });
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={backups}>
        {(found) => (
          <Stack gap="md">
            <Ages of={found} />
            <Section title={text.backups}>
              <DataTable
                name="backups"
                id="backup-"
                rows={found.backups}
                columns={columns}
                keyOf={({ file }) => file}
                empty={text.none}
                emptyAction={<Command value="stoker admin backup create --passphrase-file FILE" />}
              />
            </Section>
          </Stack>
        )}
      </Loaded>
      <Section title={text.how} about={text.howAbout}>
        <Stack gap={4}>
          <Command value="stoker admin backup create --passphrase-file FILE" />
          <Command value="stoker admin backup verify NAME --passphrase-file FILE" />
          <Command value="stoker admin backup list" />
        </Stack>
      </Section>
      <Section title={text.restores} about={text.restoresAbout}>
        <Loaded query={restores}>
          {({ restores: rows }) => (
            <DataTable
              name="restores"
              id="restore-"
              rows={rows}
              columns={restoreColumns}
              keyOf={({ id }) => id}
              empty={text.noRestores}
            />
          )}
        </Loaded>
      </Section>
    </Page>
  );
}

function Ages({ of: { last_taken_at: taken, last_verified_at: verified } }: { of: Backups }): ReactNode {
  const now = useNow();
  const age = (at: string | null, maxMs: number, stale: string) => {
    if (at === null) return { value: text.never };
    const isStale = now - Date.parse(at) > maxMs;
    return {
      value: <Ago at={at} />,
      note: (
        <Text span inherit {...(isStale ? { c: "red", fw: 600 } : {})}>
          {isStale ? `▲ ${stale}` : `● ${text.fresh}`}
        </Text>
      ),
    };
  };
  return (
    <Stats
      of={[
        { label: text.last, ...age(taken, maxAgeMs, text.stale) },
        { label: text.lastTrial, ...age(verified, maxTrialAgeMs, text.staleTrial) },
      ]}
    />
  );
}

const columns: readonly Column<Backups["backups"][number]>[] = [
  { name: text.file, value: ({ file }) => file, show: ({ file }) => <CodeText>{file}</CodeText> },
  { name: text.taken, value: ({ taken_at: at }) => at, show: ({ taken_at: at }) => <Ago at={at} /> },
  { name: text.verified, value: ({ verified_at: at }) => at, show: ({ verified_at: at }) => <Ago at={at} /> },
  { name: text.size, value: ({ size_bytes: size }) => size, show: ({ size_bytes: size }) => bytes(size) },
  { name: text.rows, value: ({ rows }) => rows, show: ({ rows }) => count(rows) },
  { name: text.version, value: ({ version }) => version },
];

const restoreColumns: readonly Column<Restore>[] = [
  { name: text.noticed, value: ({ began_at: at }) => at, show: ({ began_at: at }) => <Ago at={at} /> },
  { name: text.cause, value: ({ cause }) => cause },
  {
    name: text.state,
    value: ({ ended_at: at }) => (at === null ? text.pending : text.ended),
    show: ({ ended_at: at, ends_by: until }) => (
      <>
        <Status of={at === null ? text.pending : text.ended} />
        {at === null && (
          <Text size="xs" c="dimmed">
            {text.until} {inUtc(Date.parse(until))}
          </Text>
        )}
      </>
    ),
  },
  {
    name: text.awaited,
    value: ({ awaited_hosts: hosts }) => hosts.map(({ name }) => name).join(", "),
    show: ({ awaited_hosts: hosts }) =>
      hosts.length === 0
        ? text.noHosts
        : hosts.map(({ node_id: id, name }) => (
            <div key={id}>
              <Link to={`/nodes/${encodeURIComponent(id)}`} inherit>
                {name}
              </Link>
            </div>
          )),
  },
  {
    name: text.recovered,
    value: ({ report }) =>
      report &&
      text.recoveredOf(count(report.recovered_records), count(report.resent_records), usd(report.recovered_usd)),
  },
  { name: text.lost, value: ({ report }) => report && text.lostRecords(count(report.lost_records_at_most)) },
  {
    name: text.missing,
    value: ({ report }) => report && (report.missing_node_ids.join(", ") || text.noHosts),
  },
];
