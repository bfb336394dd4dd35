import { Code, Group, Stack, Text, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { type Container, loginOf, spentOn } from "../../domain/rental.ts";
import { text as all } from "../../text/rentals.ts";
import { Act } from "../../ui/act.tsx";
import { Choice } from "../../ui/choice.tsx";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Form } from "../../ui/form.tsx";
import { count, usd } from "../../ui/format.ts";
import { LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Stats } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { RentForm } from "./rent-form.tsx";
import { SshKeys } from "./ssh-keys.tsx";

const text = all.containers;
const pathOf = (id: string): string => `/v1/containers/${encodeURIComponent(id)}`;

export function Containers(): ReactNode {
  const [state, setState] = useFilter("state");
  const query = new URLSearchParams({ state: state || "active" });
  const containers = useGet<readonly Container[]>(`/v1/containers?${query}`, { everyMs: 5000 });
  const rent = (
    <Dialog label={text.rent} variant="filled" size="sm">
      {(close) => <RentForm onRented={close} />}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={rent}>
      <Loaded query={containers}>
        {(rows) => (
          <Stack gap="lg">
            {rows.length > 0 && state === "" && <Totals rows={rows} />}
            <DataTable
              name="containers"
              rows={rows}
              columns={columns}
              keyOf={(one) => one.id}
              empty={text.empty}
              filters={<Choice label={text.state} options={text.states} value={state} onChange={setState} />}
            />
          </Stack>
        )}
      </Loaded>
      <SshKeys />
    </Page>
  );
}

function Totals({ rows }: { rows: readonly Container[] }): ReactNode {
  const running = rows.filter((one) => one.state === "running");
  const now = Date.now();
  return (
    <Stats
      of={[
        { label: text.total.running, value: count(running.length) },
        { label: text.total.cost, value: usd(running.reduce((sum, one) => sum + one.price_per_hour, 0)) },
        { label: text.total.spent, value: usd(rows.reduce((sum, one) => sum + spentOn(one, now), 0)) },
      ]}
    />
  );
}

const columns: readonly Column<Container>[] = [
  {
    name: text.name,
    value: (one) => one.name,
    show: (one) => (
      <>
        <Text size="sm" fw={600}>
          {one.name}
        </Text>
        <Code>{one.id}</Code>
      </>
    ),
  },
  {
    name: text.status,
    value: (one) => one.state,
    show: (one) => (
      <>
        <Status of={one.state} />
        <Text size="xs" c="dimmed" component="div">
          <Ago at={one.state_ts} />
        </Text>
      </>
    ),
  },
  {
    name: text.login,
    value: loginOf,
    show: (one) => (loginOf(one) ? <Command value={loginOf(one)} /> : text.noLogin),
  },
  {
    name: text.gpus,
    value: (one) => `${one.gpu_config.replace("x", " × ")} ${one.container_image}`,
    show: (one) => (
      <>
        {one.gpu_config.replace("x", " × ")}
        <Text size="xs" c="dimmed">
          {one.container_image}
        </Text>
      </>
    ),
  },
  { name: text.price, value: (one) => one.price_per_hour, show: (one) => usd(one.price_per_hour) },
  { name: text.spent, value: (one) => spentOn(one, Date.now()), show: (one) => usd(spentOn(one, Date.now())) },
  { name: all.reason, value: (one) => one.fail_reason ?? "" },
  actionsColumn((one) => <RowActions one={one} />),
];

function RowActions({ one }: { one: Container }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { id, name, state } = one;
  return (
    <Group gap="xs" className="row-actions">
      {state === "running" && (
        <LinkButton to={`/containers/${encodeURIComponent(id)}/terminal`} size="xs" variant="default">
          {all.terminal.open}
        </LinkButton>
      )}
      <Dialog label={text.rename} title={text.renameTitle(name)} disabled={state === "deleted"}>
        {(close) => (
          <Form
            act={text.save}
            done={text.saved}
            onSend={async ({ name: next = "" }) => {
              await api.call("PATCH", pathOf(id), { name: next });
              await refresh("/v1/containers");
              close();
            }}
          >
            <TextInput label={text.newName} name="name" maxLength={64} required defaultValue={name} data-autofocus />
          </Form>
        )}
      </Dialog>
      <Act
        label={text.delete}
        color="red"
        variant="light"
        command={`stoker container delete ${id}`}
        done={text.deleted}
        {...(state === "deleted" || state === "shutting_down" ? { why: text.whyNoDelete } : {})}
        confirm={{
          title: text.deleteTitle(name),
          body: text.deleteBody(all.perHour(usd(one.price_per_hour))),
          ...(state === "running" ? { word: name } : {}),
        }}
        onAct={async () => {
          await api.call("DELETE", pathOf(id));
          await refresh("/v1/containers");
        }}
      />
    </Group>
  );
}
