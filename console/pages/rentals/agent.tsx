// Page of an agent instance: status, volume, backups, log and events.
import { Alert, Stack, Tabs, TextInput } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import { hoursPerMonth } from "../../domain/deployment.ts";
import type { Agent, AgentCatalog } from "../../domain/rental.ts";
import { text as all } from "../../text/rentals.ts";
import { Act } from "../../ui/act.tsx";
import { Command, Copy } from "../../ui/code.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Form } from "../../ui/form.tsx";
import { usd } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { PageTabs } from "../../ui/tabs.tsx";
import { Ago } from "../../ui/time.tsx";
import { Events } from "../deployments/events.tsx";
import { Logs } from "../deployments/logs.tsx";
import { Backups } from "./backups.tsx";

const text = all.agent;

export function AgentPage(): ReactNode {
  const id = useParam("id");
  const agent = useGet<Agent>(`/v1/agent/${encodeURIComponent(id)}`, { everyMs: 3000 });
  const catalog = useGet<AgentCatalog>("/v1/agent/catalog");
  const one = agent.data;
  const type = one && catalog.data?.[one.agent_type];
  return (
    <Page
      title={one?.name ?? all.agents.title}
      beside={one && <Status of={one.state} size="lg" />}
      about={<Link to="/agents">{all.agents.title}</Link>}
      actions={one && <Actions one={one} type={type} />}
    >
      <Loaded query={agent}>{(found) => <Content one={found} type={type} />}</Loaded>
    </Page>
  );
}

interface PartProps {
  readonly one: Agent;
  /** Undefined: not in the catalogue any more. */
  readonly type: AgentCatalog[string] | undefined;
}

/** The verbs of an agent; the page shows the new state after each. */
function useVerbs({ id }: Agent) {
  const api = useApi();
  const refresh = useRefresh();
  const path = `/v1/agent/${encodeURIComponent(id)}`;
  return async (method: "POST" | "PATCH" | "DELETE", verb: string, body?: object) => {
    await api.call(method, path + verb, body);
    await refresh("/v1/agent");
  };
}

function Actions({ one, type }: PartProps): ReactNode {
  const api = useApi();
  const call = useVerbs(one);
  if (one.state === "deleted") return null;
  const { id, name, state, operation, version } = one;
  const rate = all.perHour(usd(one.price_per_hour));
  const busy = operation ? text.busy(all.agents.operations[operation] ?? operation) : undefined;
  const noDashboard = !type?.has_dashboard
    ? text.whyNoDashboard.none
    : state === "running"
      ? undefined
      : text.whyNoDashboard.stopped;
  const open = async () => {
    const { dashboard_url: url } = await api.call<Responses["POST /v1/agent/{instance_id}/launch_token"]>(
      "POST",
      `/v1/agent/${encodeURIComponent(id)}/launch_token`,
    );
    location.assign(url);
  };
  return (
    <>
      <Act
        label={text.dashboard}
        variant="filled"
        command={`stoker agent open ${id}`}
        {...(noDashboard ? { why: noDashboard } : {})}
        onAct={open}
      />
      {state === "running" && (
        <LinkButton to={`/agents/${encodeURIComponent(id)}/terminal`} size="xs" variant="default">
          {all.terminal.open}
        </LinkButton>
      )}
      {state === "stopped" || state === "failed" ? (
        <Act
          label={text.start}
          command={`stoker agent start ${id}`}
          done={text.starting}
          {...(busy ? { why: busy } : {})}
          onAct={() => call("POST", "/start")}
        />
      ) : (
        <Act
          label={text.stop}
          command={`stoker agent stop ${id}`}
          done={text.stopping}
          {...(busy ? { why: busy } : {})}
          confirm={{ title: text.stopTitle(name), body: text.stopBody(rate) }}
          onAct={() => call("POST", "/stop")}
        />
      )}
      {type && type.version !== version && (
        <Act
          label={text.update(type.version)}
          command={`stoker agent update ${id}`}
          done={text.updating}
          {...(busy ? { why: busy } : {})}
          confirm={{ title: text.updateTitle(name), body: text.updateBody(version, type.version) }}
          onAct={() => call("POST", "/update")}
        />
      )}
      <Dialog label={text.rename} title={text.renameTitle(name)}>
        {(close) => (
          <Form
            act={text.save}
            done={text.saved}
            onSend={async ({ name: next = "" }) => {
              await call("PATCH", "", { name: next });
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
        command={`stoker agent delete ${id}`}
        done={text.deleted}
        confirm={{ title: text.deleteTitle(name), body: text.deleteBody, word: name }}
        onAct={() => call("DELETE", "")}
      />
    </>
  );
}

function Content({ one, type }: PartProps): ReactNode {
  return (
    <Stack gap="md">
      {one.fail_reason && (
        <Alert color="red" variant="light" icon={<IconAlertTriangle />} title={text.failure}>
          <span className="verbatim">{one.fail_reason}</span>
        </Alert>
      )}
      {one.operation && (
        <Alert color="blue" variant="light">
          {text.busy(all.agents.operations[one.operation] ?? one.operation)}
        </Alert>
      )}
      <PageTabs label={text.tabsLabel} tabs={Object.entries(text.tabs)}>
        <Tabs.Panel value="overview">
          <Overview one={one} type={type} />
        </Tabs.Panel>
        <Tabs.Panel value="backups">
          <Backups one={one} />
        </Tabs.Panel>
        <Tabs.Panel value="logs">
          <Section>
            <Logs id={one.id} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Section>
            <Events path={`/deploy/${encodeURIComponent(one.id)}/events`} />
          </Section>
        </Tabs.Panel>
      </PageTabs>
    </Stack>
  );
}

function Overview({ one, type }: PartProps): ReactNode {
  const plan = type?.plans.find(({ id }) => id === one.plan_id);
  const rate = one.price_per_hour;
  return (
    <Section>
      <Facts
        of={[
          {
            label: text.id,
            value: (
              <span className="copied">
                <code>{one.id}</code> <Copy value={one.id} />
              </span>
            ),
          },
          { label: text.type, value: type?.pretty_name ?? one.agent_type },
          {
            label: text.version,
            value: one.version,
            note: type && (type.version === one.version ? text.newest : text.older(type.version)),
          },
          {
            label: text.plan,
            value: plan ? all.agents.form.planText(plan.id, plan.vcpu, plan.ram_gb) : one.plan_id,
            note: plan && all.agents.form.egress(plan.monthly_egress_gb),
          },
          {
            label: text.price,
            value: text.pricePer(all.perHour(usd(rate)), all.perMonth(usd(Math.round(rate * hoursPerMonth)))),
          },
          one.public_ip !== null && { label: text.address, value: one.public_ip },
          { label: text.volume, value: text.volumeKept },
          { label: text.lastBackup, value: <Ago at={one.last_backup_ts} /> },
          { label: text.created, value: <Ago at={one.start_ts} /> },
          { label: text.changed, value: <Ago at={one.state_ts} /> },
          type?.self_service_update_command != null && {
            label: text.command,
            value: <Command value={type.self_service_update_command} />,
          },
        ]}
      />
    </Section>
  );
}
