// Use, errors, latency and spend over time; for operators also of the whole fleet.
import { Group, SimpleGrid, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { useVisitor } from "../../app/visitor.ts";
import { isRange, type MetricsSeries, rates, sumOf, typicalOf, valuesOf } from "../../domain/series.ts";
import { text } from "../../text/overview.ts";
import { TimeChart } from "../../ui/chart.tsx";
import { Choice } from "../../ui/choice.tsx";
import { Code } from "../../ui/code.tsx";
import { bytes, count, percent, usd } from "../../ui/format.ts";
import { LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section, Stats } from "../../ui/page.tsx";

export function Overview(): ReactNode {
  const { me } = useVisitor();
  const [wantedRange, setRange] = useFilter("range");
  const [scope, setScope] = useFilter("scope");
  const range = isRange(wantedRange) ? wantedRange : "24h";
  const isFleet = me.is_admin && scope !== "own";
  const path = isFleet ? "/v1/admin/metrics/series" : "/v1/metrics/series";
  const series = useGet<MetricsSeries>(`${path}?from=now-${range}`, { everyMs: 30_000 });
  return (
    <Page title={text.title} about={isFleet ? text.aboutFleet : text.about}>
      <NewKey />
      <Group gap="sm">
        <Choice label={text.range} options={text.ranges} value={range} onChange={setRange} />
        {me.is_admin && (
          <Choice
            label={text.scope}
            options={text.scopes}
            value={isFleet ? "fleet" : "own"}
            onChange={(value) => setScope(value === "own" ? "own" : "")}
          />
        )}
      </Group>
      <Loaded query={series}>
        {(found) => (
          <Stack gap="lg">
            <Totals of={found} />
            <Charts of={found} />
            {isFleet && <HostCharts of={found} />}
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

/** The key of an account that was just created. */
function NewKey(): ReactNode {
  const { newKey } = useVisitor();
  if (newKey === undefined) return null;
  return (
    <Section title={text.newKey} about={text.newKeyAbout}>
      <Code value={newKey} />
      <LinkButton to="/first-call" mt="sm">
        {text.firstCall}
      </LinkButton>
    </Section>
  );
}

const milliseconds = (value: number): string => text.ms(count(Math.round(value)));
const perSecond = (value: number): string => text.perSecond(count(value));

function Totals({ of }: { of: MetricsSeries }): ReactNode {
  const ttft = typicalOf(of, "ttft_p50_ms");
  return (
    <Stats
      of={[
        { label: text.requests, value: count(sumOf(of, "requests")) },
        { label: text.errors, value: count(sumOf(of, "errors_4xx") + sumOf(of, "errors_5xx")) },
        { label: text.tokensIn, value: count(sumOf(of, "input_tokens")) },
        { label: text.tokensOut, value: count(sumOf(of, "output_tokens")) },
        {
          label: `${text.ttft}, ${text.percentile(50)}`,
          value: ttft === undefined ? "–" : milliseconds(ttft),
        },
        { label: text.spend, value: usd(sumOf(of, "spend_usd")), note: text.spendNote },
      ]}
    />
  );
}

function Charts({ of }: { of: MetricsSeries }): ReactNode {
  const { times } = of;
  const rate = (name: string) => rates(of, valuesOf(of, name, 0));
  const percentiles = (name: string) =>
    [50, 95, 99].map((rank) => ({
      name: text.percentile(rank),
      values: valuesOf(of, `${name}_p${rank}_ms`),
    }));
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Section>
        <TimeChart
          title={text.requestRate}
          times={times}
          kind="area"
          show={perSecond}
          series={[{ name: text.requests, values: rate("requests") }]}
        />
      </Section>
      <Section>
        <TimeChart
          title={text.tokenRate}
          times={times}
          show={perSecond}
          series={[
            { name: text.tokensIn, values: rate("input_tokens") },
            { name: text.tokensOut, values: rate("output_tokens") },
          ]}
        />
      </Section>
      <Section>
        <TimeChart title={text.ttft} times={times} show={milliseconds} series={percentiles("ttft")} />
      </Section>
      <Section>
        <TimeChart title={text.total} times={times} show={milliseconds} series={percentiles("total")} />
      </Section>
      <Section>
        <TimeChart
          title={text.errorRate}
          times={times}
          show={perSecond}
          series={[
            { name: text.refused, values: rate("errors_4xx") },
            { name: text.failed, values: rate("errors_5xx") },
          ]}
        />
      </Section>
      <Section>
        <TimeChart
          title={text.spend}
          times={times}
          kind="bars"
          show={usd}
          series={[{ name: text.spend, values: valuesOf(of, "spend_usd", 0) }]}
        />
      </Section>
    </SimpleGrid>
  );
}

function HostCharts({ of }: { of: MetricsSeries }): ReactNode {
  const { times } = of;
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Section>
        <TimeChart
          title={text.gpuUse}
          times={times}
          kind="area"
          max={1}
          show={percent}
          series={[{ name: text.gpuUse, values: valuesOf(of, "gpu_use_ratio") }]}
        />
      </Section>
      <Section>
        <TimeChart
          title={text.gpuMemory}
          times={times}
          show={bytes}
          series={[
            { name: text.used, values: valuesOf(of, "gpu_memory_used_bytes") },
            { name: text.available, values: valuesOf(of, "gpu_memory_total_bytes") },
          ]}
        />
      </Section>
      <Section>
        <TimeChart
          title={text.queue}
          times={times}
          show={count}
          series={[
            { name: text.running, values: valuesOf(of, "running_requests") },
            { name: text.waiting, values: valuesOf(of, "waiting_requests") },
          ]}
        />
      </Section>
    </SimpleGrid>
  );
}
