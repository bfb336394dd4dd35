import { Radio, Stack, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { hoursPerMonth } from "../../domain/deployment.ts";
import type { Agent, AgentCatalog } from "../../domain/rental.ts";
import { text as all } from "../../text/rentals.ts";
import { Choice } from "../../ui/choice.tsx";
import { Command } from "../../ui/code.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Page } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

const text = all.agents;

export function Agents(): ReactNode {
  const [state, setState] = useFilter("state");
  const query = new URLSearchParams({ state: state || "active" });
  const agents = useGet<readonly Agent[]>(`/v1/agent?${query}`, { everyMs: 5000 });
  const create = (
    <Dialog label={text.create} variant="filled" size="sm">
      {() => <CreateAgent />}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={create}>
      <Loaded query={agents}>
        {(rows) => (
          <DataTable
            name="agents"
            rows={rows}
            columns={columns}
            keyOf={({ id }) => id}
            empty={text.empty}
            filters={<Choice label={text.state} options={text.states} value={state} onChange={setState} />}
          />
        )}
      </Loaded>
    </Page>
  );
}

const columns: readonly Column<Agent>[] = [
  {
    name: text.name,
    value: (one) => one.name,
    show: (one) => (
      <Link to={`/agents/${encodeURIComponent(one.id)}`} fw={600}>
        {one.name}
      </Link>
    ),
  },
  {
    name: text.status,
    value: (one) => one.state,
    show: (one) => (
      <>
        <Status of={one.state} />
        {one.operation && (
          <Text size="xs" c="dimmed">
            {text.inProgress(text.operations[one.operation] ?? one.operation)}
          </Text>
        )}
      </>
    ),
  },
  { name: text.type, value: (one) => `${one.agent_type} ${one.version}, ${one.plan_id}` },
  { name: text.price, value: (one) => one.price_per_hour, show: (one) => usd(one.price_per_hour) },
  { name: text.backup, value: (one) => one.last_backup_ts, show: (one) => <Ago at={one.last_backup_ts} /> },
  { name: all.reason, value: (one) => one.fail_reason ?? "" },
];

function CreateAgent(): ReactNode {
  const catalog = useGet<AgentCatalog>("/v1/agent/catalog");
  return (
    <Loaded query={catalog}>
      {(types) => {
        const choices = Object.entries(types).flatMap(([type, entry]) =>
          entry.plans.map((plan) => ({ type, entry, plan, key: `${type}/${plan.id}` })),
        );
        return choices.length === 0 ? <Empty>{text.none}</Empty> : <AgentForm choices={choices} />;
      }}
    </Loaded>
  );
}

interface PlanChoice {
  readonly key: string;
  readonly type: string;
  readonly entry: AgentCatalog[string];
  readonly plan: AgentCatalog[string]["plans"][number];
}

function AgentForm({ choices }: { choices: readonly PlanChoice[] }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const navigate = useNavigate();
  const [key, setKey] = useState(choices[0]?.key ?? "");
  const chosen = choices.find((one) => one.key === key);
  const words = text.form;
  const create = async ({ name }: Fields) => {
    const body = { name, agent_type_id: chosen?.type, plan_id: chosen?.plan.id };
    const { instance_id: id } = await api.call<{ readonly instance_id: string }>("POST", "/v1/agent", body);
    await refresh("/v1/agent");
    await navigate({ to: `/agents/${id}` });
  };
  const rate = chosen?.plan.price_per_hour ?? 0;
  return (
    <Form act={words.submit} onSend={create}>
      <TextInput label={words.name} name="name" maxLength={64} required data-autofocus />
      <Radio.Group label={words.type} value={key} onChange={setKey}>
        <Stack gap="xs" mt="xs">
          {choices.map(({ key: value, entry, plan }) => (
            <Radio
              key={value}
              value={value}
              label={`${entry.pretty_name} ${entry.version} · ${words.planText(plan.id, plan.vcpu, plan.ram_gb)}`}
              description={[
                all.perHour(usd(plan.price_per_hour)),
                words.egress(plan.monthly_egress_gb),
                entry.has_dashboard && words.dashboard,
              ]
                .filter(Boolean)
                .join(" · ")}
            />
          ))}
        </Stack>
      </Radio.Group>
      <Text size="sm">{words.cost(all.perHour(usd(rate)), all.perMonth(usd(Math.round(rate * hoursPerMonth))))}</Text>
      <Command value={`stoker agent create NAME --type ${chosen?.type} --plan ${chosen?.plan.id}`} />
    </Form>
  );
}
