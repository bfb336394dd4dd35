// Usage by day. The server sums once for each period; groupings and filters are answered from that.
import { Alert, Button, Group, Select, Stack } from "@mantine/core";
import { IconAlertTriangle, IconX } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import {
  type Days,
  firstDay,
  type Grouping,
  groupings,
  isOwnSum,
  keysIn,
  linesOf,
  type Metric,
  metrics,
  modelsIn,
  totalsOf,
} from "../../domain/usage.ts";
import { text } from "../../text/usage.ts";
import { Choice } from "../../ui/choice.tsx";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Section } from "../../ui/page.tsx";
import { UsageChart, UsageStats } from "./usage-chart.tsx";
import { UsageTable } from "./usage-table.tsx";
import { UsageByUser } from "./usage-users.tsx";

export function UsageByDay(): ReactNode {
  const [by, setBy] = useFilter("by");
  const [period, setPeriod] = useFilter("days");
  const [metricName, setMetric] = useFilter("metric");
  const [model, setModel] = useFilter("model");
  const [key, setKey] = useFilter("key");
  const [user] = useFilter("user");
  const navigate = useNavigate();
  const grouping: Grouping = groupings.find((one) => one === by) ?? "model";
  const metric: Metric = metrics.find((one) => one === metricName) ?? "cost";
  const from = firstDay(Number(period) || 30, Date.now());
  const usage = useGet<Days>(`/v1/usage/days?by=${isOwnSum(grouping) ? grouping : "model_and_key"}&from=${from}`, {
    everyMs: 60_000,
  });
  const { models, keys } = useMemo(
    () => (usage.data ? { models: modelsIn(usage.data), keys: [...keysIn(usage.data)] } : { models: [], keys: [] }),
    [usage.data],
  );
  const clear = () =>
    void navigate({
      to: ".",
      search: (({ model: _model, key: _key, user: _user, ...rest }: Record<string, string>) => rest) as never,
      replace: true,
    });
  const isByUser = by === "user";
  return (
    <Stack gap="md">
      <Group gap="sm" align="flex-end">
        <Choice label={text.by} options={text.bys} value={by} onChange={setBy} />
        <Choice label={text.days} options={text.periods} value={period} onChange={setPeriod} />
        <Choice label={text.metric} options={text.metrics} value={metricName} onChange={setMetric} />
        {!isOwnSum(grouping) && (
          <>
            <Select
              size="xs"
              w={{ base: "100%", xs: 180 }}
              aria-label={text.model}
              placeholder={text.anyModel}
              data={[...new Set([...models, ...(model === "" ? [] : [model])])].sort()}
              value={model === "" ? null : model}
              clearable
              searchable
              onChange={(value) => setModel(value ?? "")}
            />
            <Select
              size="xs"
              w={{ base: "100%", xs: 180 }}
              aria-label={text.key}
              placeholder={text.anyKey}
              data={keys.filter(([id]) => id !== "").map(([value, label]) => ({ value, label }))}
              value={key === "" ? null : key}
              clearable
              searchable
              onChange={(value) => setKey(value ?? "")}
            />
          </>
        )}
        {(model !== "" || key !== "" || user !== "") && (
          <Button variant="subtle" size="xs" leftSection={<IconX size={14} />} onClick={clear}>
            {text.clear}
          </Button>
        )}
      </Group>
      {isByUser ? (
        <UsageByUser from={from} metric={metric} model={model} apiKey={key} all={usage} />
      ) : (
        <Loaded query={usage}>
          {(found) => <Found of={found} by={grouping} metric={metric} model={model} apiKey={key} />}
        </Loaded>
      )}
    </Stack>
  );
}

interface FoundProps {
  readonly of: Days;
  readonly by: Grouping;
  readonly metric: Metric;
  readonly model: string;
  readonly apiKey: string;
}

function Found({ of, by, metric, model, apiKey }: FoundProps): ReactNode {
  const [, setModel] = useFilter("model");
  const [, setKey] = useFilter("key");
  const lines = useMemo(() => linesOf(of, by, { model, key: apiKey }), [of, by, model, apiKey]);
  const totals = useMemo(() => totalsOf(lines), [lines]);
  const days = useMemo(() => of.days.map(({ day }) => day), [of]);
  // Hundreds of buttons, which another metric does not change.
  const table = useMemo(
    () => (
      <UsageTable
        lines={lines}
        totals={totals}
        name={text.bys[by === "model" ? "" : by]}
        hasLimits={by === "token"}
        link={({ id }) => (isOwnSum(by) ? undefined : by === "key" ? { key: id } : { model: id })}
        onChoose={isOwnSum(by) ? undefined : by === "key" ? setKey : setModel}
      />
    ),
    [lines, totals, by, setKey, setModel],
  );
  if (of.days.every(({ items }) => items.length === 0))
    return (
      <Section>
        <Empty action={<LinkButton to="/first-call">{text.firstCall}</LinkButton>}>{text.empty}</Empty>
      </Section>
    );
  return (
    <>
      {by === "token" && (
        <Alert variant="light" color="gray">
          {text.tokenNote} <Link to="/keys?tab=inspect">{text.inspect}</Link>
        </Alert>
      )}
      {of.is_truncated && (
        <Alert variant="light" color="yellow" icon={<IconAlertTriangle />}>
          {text.truncated}
        </Alert>
      )}
      <UsageStats lines={lines} />
      <UsageChart
        days={days}
        lines={lines}
        metric={metric}
        title={text.chart(text.metrics[metric === "cost" ? "" : metric], text.bys[by === "model" ? "" : by])}
      />
      {table}
    </>
  );
}
