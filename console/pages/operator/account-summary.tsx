import { Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { text as all } from "../../text/operator-accounts.ts";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { count, usd } from "../../ui/format.ts";
import { NoteAct } from "../../ui/note-act.tsx";
import { Section, Stats } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { type Account, pathOfAccount } from "./account-path.ts";
import { fundsText } from "./account-status.tsx";

const text = all.detail;

type Suspension = Account["suspensions"][number];

export function AccountSummary({ one }: { one: Account }): ReactNode {
  return (
    <Stack gap="md">
      <Stats
        of={[
          { label: all.funds, value: fundsText(one.funds_usd) },
          { label: all.spent, value: usd(one.spent_usd) },
          { label: text.credited, value: fundsText(one.credited_usd) },
          { label: text.keys, value: count(one.keys) },
          { label: text.deployments, value: count(one.deployments) },
        ]}
      />
      <Section title={text.suspensions}>
        <DataTable
          name="suspensions"
          id="suspension-"
          rows={one.suspensions}
          columns={[...columns, actionsColumn<Suspension>((suspension) => <Lift one={one} suspension={suspension} />)]}
          keyOf={({ reason }) => reason}
          empty={text.notSuspended}
        />
      </Section>
    </Stack>
  );
}

const columns: readonly Column<Suspension>[] = [
  { name: text.reason, value: ({ reason }) => reason },
  { name: text.suspendedAt, value: ({ since }) => since, show: ({ since }) => <Ago at={since} /> },
  { name: text.by, value: ({ by }) => by },
  { name: text.note, value: ({ note }) => note },
];

function Lift({ one, suspension: { reason } }: { one: Account; suspension: Suspension }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  if (one.deleted_at !== null) return null;
  return (
    <NoteAct
      label={text.lift}
      title={text.liftTitle(one.display_name)}
      body={text.liftBody}
      command={`stoker admin account lift ${one.uid} --reason ${reason} --note TEXT`}
      done={text.liftDone}
      onAct={async (note) => {
        await api.call("POST", `${pathOfAccount(one.uid)}/lift`, { reason, note });
        await refresh(pathOfAccount(one.uid));
      }}
    />
  );
}
