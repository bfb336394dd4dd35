import { Code, Group } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import type { Agent } from "../../domain/rental.ts";
import { text as all } from "../../text/rentals.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { inUtc } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

type Backup = Responses["GET /v1/agent/{instance_id}/backups"][number];

const text = all.agent;

export function Backups({ one }: { one: Agent }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const path = `/v1/agent/${encodeURIComponent(one.id)}`;
  const backups = useGet<readonly Backup[]>(`${path}/backups`, { everyMs: 5000 });
  const act: BackupAct = async (method, suffix) => {
    await api.call(method, path + suffix);
    await refresh("/v1/agent");
  };
  const busy = one.operation ? text.busy(all.agents.operations[one.operation] ?? one.operation) : undefined;
  const why = busy ?? (one.state === "deleted" ? text.deleted : undefined);
  return (
    <Section
      title={text.backups}
      about={text.backupsAbout}
      actions={
        <Act
          label={text.createBackup}
          command={`stoker backup create ${one.id}`}
          done={text.backupStarted}
          {...(why ? { why } : {})}
          onAct={() => act("POST", "/backup")}
        />
      }
    >
      <Loaded query={backups}>
        {(rows) => (
          <DataTable
            name="backups"
            id="b-"
            rows={rows}
            columns={columnsWith(one.id, act, why)}
            keyOf={(backup) => backup.snapshot_name}
            empty={text.noBackups}
          />
        )}
      </Loaded>
    </Section>
  );
}

type BackupAct = (method: "POST" | "DELETE", suffix: string) => Promise<void>;

const columnsWith = (id: string, act: BackupAct, why: string | undefined): readonly Column<Backup>[] => [
  { name: text.backup, value: (one) => one.snapshot_name, show: (one) => <Code>{one.snapshot_name}</Code> },
  { name: all.agents.status, value: (one) => one.state, show: (one) => <Status of={one.state} /> },
  { name: text.size, value: (one) => one.size_in_gb, show: (one) => `${one.size_in_gb.toFixed(3)} GB` },
  { name: text.created, value: (one) => one.created_at_unix, show: (one) => <Ago at={one.created_at_unix} /> },
  { name: all.reason, value: (one) => one.fail_reason ?? "" },
  actionsColumn(({ snapshot_name: name, state, created_at_unix: at }) => {
    const path = `/backups/${encodeURIComponent(name)}`;
    const disabled = why ? { why } : {};
    return (
      <Group gap="xs" className="row-actions">
        {state === "ready" && (
          <>
            <Act
              label={text.restore}
              command={`stoker backup restore ${id} ${name}`}
              done={text.restoring}
              confirm={{ title: text.restoreTitle, body: text.restoreBody(inUtc(at * 1000)) }}
              {...disabled}
              onAct={() => act("POST", `${path}/restore`)}
            />
            <Act
              label={text.verify}
              command={`stoker backup verify ${id} ${name}`}
              done={text.verifying}
              {...disabled}
              onAct={() => act("POST", `${path}/verify`)}
            />
          </>
        )}
        {state !== "creating" && (
          <Act
            label={text.delete}
            color="red"
            variant="light"
            command={`stoker backup delete ${id} ${name}`}
            done={text.deleted}
            confirm={{ title: text.deleteBackupTitle, body: text.deleteBackupBody }}
            onAct={() => act("DELETE", path)}
          />
        )}
      </Group>
    );
  }),
];
