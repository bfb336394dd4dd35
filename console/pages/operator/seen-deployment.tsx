// A deployment, container or agent instance of any account: what it runs on, why it fails or waits, and how to intervene.
import { Alert, Anchor, Code, Select, Stack, Tabs, Text } from "@mantine/core";
import { IconEye } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { useParam } from "../../app/router.tsx";
import { useVisitor } from "../../app/visitor.ts";
import { gpusText, instancesText, isEnded } from "../../domain/deployment.ts";
import { text as all } from "../../text/operator-deployments.ts";
import { Act } from "../../ui/act.tsx";
import { listOf } from "../../ui/choice.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Link } from "../../ui/link.tsx";
import { NoteAct } from "../../ui/note-act.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { PageTabs } from "../../ui/tabs.tsx";
import { Ago } from "../../ui/time.tsx";
import { Notices } from "../deployments/notices.tsx";
import { useOffers } from "../deployments/use-offers.ts";
import { asOwner } from "./account-path.ts";
import { AccountLink } from "./account-status.tsx";
import { deploymentsPath } from "./seen-deployments.tsx";

const Events = lazy(async () => ({ default: (await import("../deployments/events.tsx")).Events }));
const Logs = lazy(async () => ({ default: (await import("../deployments/logs.tsx")).Logs }));

type Seen = Responses["GET /v1/admin/deployments/{deploy_id}"];

const text = all.detail;
const pathOf = (id: string): string => `${deploymentsPath}/${encodeURIComponent(id)}`;

export function SeenDeployment(): ReactNode {
  const id = useParam("id");
  const deployment = useGet<Seen>(pathOf(id), { everyMs: 3000 });
  const one = deployment.data;
  return (
    <Page
      title={one ? one.model_name || one.deploy_id : text.title}
      beside={one && <Status of={one.status} size="lg" />}
      about={
        <>
          <Link to="/all-deployments">{text.back}</Link>
          {one && (
            <>
              {` · ${all.kindOf[one.kind]} ${text.of} `}
              <AccountLink uid={one.account.uid} name={one.account.display_name} />
              {` (${one.account.email})`}
            </>
          )}
        </>
      }
      actions={one && <Actions one={one} />}
    >
      <Loaded query={deployment}>{(found) => <Content one={found} />}</Loaded>
    </Page>
  );
}

function Actions({ one }: { one: Seen }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const navigate = useNavigate();
  const { me, viewAccount } = useVisitor();
  const { deploy_id: id, model_name: name, kind, status, account } = one;
  const path = pathOf(id);
  const owner = `${account.display_name} (${account.email})`;
  const intervene = async (verb: string, note: string) => {
    await api.call("POST", `${path}/${verb}`, { note });
    await refresh(deploymentsPath);
  };
  const remove = async (note: string) => {
    await api.call("DELETE", `${path}?${new URLSearchParams({ note })}`);
    await refresh(deploymentsPath);
  };
  const view = async () => {
    await viewAccount(account.uid);
    await navigate({ to: ownPage(one) as never });
  };
  const isAtRest = status === "stopped" || status === "failed";
  const isDeleted = status === "deleted";
  const command = (verb: string) => `stoker admin deployment ${verb} ${id} --note TEXT`;
  return (
    <>
      {account.uid !== me.uid && (
        <Act
          label={text.view}
          leftSection={<IconEye size={14} />}
          color="violet"
          variant="light"
          confirm={{ title: text.viewTitle(account.display_name), body: text.viewBody }}
          onAct={view}
        />
      )}
      {kind !== "container" && (
        <>
          {!isAtRest && (
            <NoteAct
              label={text.stop}
              title={text.stopTitle(name)}
              body={text.stopBody(owner, one.instances.running)}
              command={command("stop")}
              done={text.stopDone}
              disabled={isDeleted || status === "stopping"}
              onAct={(note) => intervene("stop", note)}
            />
          )}
          <NoteAct
            label={isAtRest ? text.start : text.restart}
            title={isAtRest ? `${text.start} ${name}` : text.restartTitle(name)}
            body={isAtRest ? text.startBody(owner) : text.restartBody(owner)}
            command={command("restart")}
            done={isAtRest ? text.startDone : text.restartDone}
            disabled={isDeleted || status === "stopping"}
            onAct={(note) => intervene("restart", note)}
          />
        </>
      )}
      {kind === "model" && <PrefixCache id={id} />}
      <NoteAct
        label={text.delete}
        title={text.deleteTitle(name)}
        body={kind === "model" ? text.deleteBody(owner) : text.deleteDataBody(owner)}
        color="red"
        variant="light"
        command={command("delete")}
        done={text.deleteDone}
        disabled={isDeleted}
        onAct={remove}
      />
    </>
  );
}

/** The owner's page. */
const ownPage = ({ kind, deploy_id: id }: Seen): string =>
  kind === "container" ? "/containers" : kind === "agent_instance" ? `/agents/${id}` : `/deployments/${id}`;

function PrefixCache({ id }: { id: string }): ReactNode {
  const api = useApi();
  return (
    <NoteAct
      label={text.share}
      title={text.shareTitle}
      body={text.shareBody}
      command={`stoker admin prefix-cache ${id} shared --note TEXT`}
      done={text.shareDone}
      fields={
        <Select
          label={text.shareChoice}
          name="mode"
          data={listOf(text.shareChoices)}
          defaultValue="separate"
          allowDeselect={false}
        />
      }
      onAct={(note, { mode }) => api.call("PUT", `${pathOf(id)}/prefix-cache`, { shared: mode === "shared", note })}
    />
  );
}

function Content({ one }: { one: Seen }): ReactNode {
  const [, setTab] = useFilter("tab");
  const [, setInstance] = useFilter("instance");
  const { deploy_id: id, account } = one;
  const showLog = (instance: string) => {
    setInstance(instance);
    setTab("logs");
  };
  return (
    <Stack gap="md">
      {account.suspend_reason !== null && !isEnded(one.status) && (
        <Alert color="yellow" variant="light">
          {text.suspended(account.suspend_reason)}
        </Alert>
      )}
      <Notices one={one}>
        <Anchor component="button" type="button" size="sm" onClick={() => setTab("logs")}>
          {text.logs}
        </Anchor>
      </Notices>
      <PageTabs label={text.tabsLabel} tabs={Object.entries(text.tabs)}>
        <Tabs.Panel value="overview">
          <Stack gap="md">
            <Instances one={one} onLog={showLog} />
            <Configuration one={one} />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="logs">
          <Section>
            <Logs id={id} headers={asOwner(account.uid)} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Section>
            <Events path={`${pathOf(id)}/events`} onInstance={showLog} />
          </Section>
        </Tabs.Panel>
      </PageTabs>
    </Stack>
  );
}

type Instance = Seen["hosts"][number];

function Instances({ one, onLog }: { one: Seen; onLog: (instance: string) => void }): ReactNode {
  return (
    <Section title={text.instances} about={instancesText(one)}>
      <DataTable
        name="instances"
        id="i-"
        rows={one.hosts}
        columns={[...columns, actionsColumn<Instance>(({ instance_id: id }) => <LogLink onClick={() => onLog(id)} />)]}
        keyOf={({ instance_id: id }) => id}
        empty={text.noInstances}
      />
    </Section>
  );
}

const LogLink = ({ onClick }: { onClick: () => void }): ReactNode => (
  <Anchor component="button" type="button" size="sm" onClick={onClick}>
    {text.logs}
  </Anchor>
);

const columns: readonly Column<Instance>[] = [
  {
    name: text.instance,
    value: ({ instance_id: id }) => id,
    show: ({ instance_id: id }) => <Code>{id}</Code>,
  },
  {
    name: text.host,
    value: ({ node_name: name }) => name,
    show: ({ node_id: id, node_name: name }) => <Link to={`/nodes/${encodeURIComponent(id)}`}>{name}</Link>,
  },
  { name: text.phase, value: ({ phase }) => phase, show: ({ phase }) => <Status of={phase} /> },
  { name: text.restarts, value: ({ restarts }) => restarts },
  {
    name: text.gpuUuids,
    value: ({ gpus }) => gpus.join(" "),
    show: ({ gpus }) =>
      gpus.map((uuid) => (
        <Text key={uuid} size="xs" className="verbatim">
          {uuid}
        </Text>
      )),
  },
  { name: text.since, value: ({ since }) => since, show: ({ since }) => <Ago at={since} /> },
  { name: text.trouble, value: ({ trouble }) => trouble },
];

function Configuration({ one }: { one: Seen }): ReactNode {
  const offers = useOffers();
  return (
    <Section title={text.configuration}>
      <Facts
        of={[
          { label: text.id, value: <Code>{one.deploy_id}</Code> },
          { label: text.engine, value: one.engine },
          { label: all.gpus, value: gpusText(one, offers) },
          { label: all.created, value: <Ago at={one.created_at} /> },
        ]}
      />
    </Section>
  );
}
