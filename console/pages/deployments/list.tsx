import { Progress, Stack, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import {
  activeStatuses,
  currentRate,
  type Deployment,
  gpusText,
  instanceRate,
  instancesText,
  isStarting,
  type Offer,
  progressText,
  reasonOf,
} from "../../domain/deployment.ts";
import { text } from "../../text/deployments.ts";
import { Choice } from "../../ui/choice.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { count, usd } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Stats } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { useOffers } from "./use-offers.ts";

const words = text.list;

export function Deployments(): ReactNode {
  const [state, setState] = useFilter("state");
  const list = useGet<readonly Deployment[]>("/deploy/list", { everyMs: 5000 });
  const gpus = useOffers(60_000);
  const deploy = (
    <LinkButton to="/deployments/new" leftSection={<IconPlus size={16} />}>
      {text.deploy}
    </LinkButton>
  );
  return (
    <Page title={text.title} about={text.about} actions={deploy}>
      <Loaded query={list}>
        {(all) => {
          const rows = all.filter((one) => isShown(one, state));
          return (
            <Stack gap="lg">
              {all.some(({ status }) => status !== "deleted") && <Totals all={all} offers={gpus} />}
              <DataTable
                name="deployments"
                rows={rows}
                columns={columnsWith(gpus)}
                keyOf={({ deploy_id: id }) => id}
                filters={<Choice label={words.state} options={words.states} value={state} onChange={setState} />}
                empty={state === "" ? words.empty : words.emptyFilter}
                emptyAction={state === "" ? deploy : undefined}
              />
            </Stack>
          );
        }}
      </Loaded>
    </Page>
  );
}

function isShown({ status }: Deployment, state: string): boolean {
  switch (state) {
    case "all":
      return true;
    case "active":
      return activeStatuses.includes(status);
    case "":
      return status !== "deleted";
    default:
      return status === state;
  }
}

function Totals({ all, offers }: { all: readonly Deployment[]; offers: readonly Offer[] }): ReactNode {
  const active = all.filter(({ status }) => activeStatuses.includes(status));
  const attention = all.filter((one) => one.status === "failed" || (active.includes(one) && reasonOf(one) !== ""));
  const rate = active.reduce((sum, one) => sum + (currentRate(one, offers) ?? 0), 0);
  return (
    <Stats
      of={[
        { label: words.total.active, value: count(active.length) },
        {
          label: words.total.instances,
          value: count(active.reduce((sum, { instances }) => sum + instances.running, 0)),
        },
        { label: words.total.cost, value: usd(rate) },
        { label: words.total.attention, value: count(attention.length) },
      ]}
    />
  );
}

const columnsWith = (offers: readonly Offer[]): readonly Column<Deployment>[] => [
  {
    name: words.model,
    value: (one) => one.model_name,
    show: (one) => (
      <>
        {one.type === "lora" ? (
          <Link to="/adapters" fw={600}>
            {one.model_name}
          </Link>
        ) : (
          <Link to={`/deployments/${one.deploy_id}`} fw={600}>
            {one.model_name}
          </Link>
        )}
        <Text size="xs" c="dimmed">
          {one.type === "lora" ? words.adapterOf : one.task}
        </Text>
      </>
    ),
  },
  { name: words.status, value: (one) => one.status, show: (one) => <StatusCell one={one} /> },
  { name: words.instances, value: instancesText },
  { name: words.gpus, value: (one) => gpusText(one, offers) },
  {
    name: words.cost,
    value: (one) => currentRate(one, offers) ?? null,
    show: (one) => <CostCell one={one} offers={offers} />,
  },
  {
    name: words.reason,
    value: reasonOf,
    show: (one) =>
      reasonOf(one) && (
        <Text size="sm" lineClamp={3} maw={380} title={reasonOf(one)}>
          {reasonOf(one)}
        </Text>
      ),
  },
  { name: words.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
];

function StatusCell({ one }: { one: Deployment }): ReactNode {
  const progress = progressText(one);
  const { done_bytes: done = 0, total_bytes: total = 0 } = one.progress ?? {};
  return (
    <Stack gap={4} miw={140}>
      <div>
        <Status of={one.status} />
      </div>
      {progress && (
        <Text size="xs" c="dimmed">
          {progress}
        </Text>
      )}
      {isStarting(one.status) && total > 0 && <Progress value={(100 * done) / total} size="sm" aria-label={progress} />}
    </Stack>
  );
}

function CostCell({ one, offers }: { one: Deployment; offers: readonly Offer[] }): ReactNode {
  const now = currentRate(one, offers);
  const each = instanceRate(one, offers);
  if (now === undefined) return <Text size="sm">{one.config?.num_gpus ? text.noPrice : "–"}</Text>;
  return (
    <span title={each === undefined ? "" : `${one.instances.running} × ${text.perHour(usd(each))}`}>{usd(now)}</span>
  );
}
