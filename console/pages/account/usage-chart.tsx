import { Skeleton } from "@mantine/core";
import { lazy, type ReactNode, Suspense, useMemo } from "react";
import { type Line, type Metric, seriesOf, sumOf, timesOf } from "../../domain/usage.ts";
import { text } from "../../text/usage.ts";
import { count, usd } from "../../ui/format.ts";
import { Section, Stats } from "../../ui/page.tsx";

const TimeChart = lazy(async () => ({ default: (await import("../../ui/chart.tsx")).TimeChart }));

export function UsageStats({ lines }: { lines: readonly Line[] }): ReactNode {
  const sum = sumOf(lines);
  return (
    <Stats
      of={[
        { label: text.total.cost, value: usd(sum.cost) },
        { label: text.total.requests, value: count(sum.requests) },
        { label: text.total.input, value: count(sum.input) },
        { label: text.total.output, value: count(sum.output) },
      ]}
    />
  );
}

interface UsageChartProps {
  readonly days: readonly string[];
  readonly lines: readonly Line[];
  readonly metric: Metric;
  readonly title: string;
}

export function UsageChart({ days, lines, metric, title }: UsageChartProps): ReactNode {
  const series = useMemo(() => seriesOf(days, lines, metric), [days, lines, metric]);
  const times = useMemo(() => timesOf(days), [days]);
  return (
    <Section>
      <Suspense fallback={<Skeleton height={260} />}>
        <TimeChart
          title={title}
          times={times}
          series={series}
          kind="bars"
          isStacked
          height={240}
          show={metric === "cost" ? usd : count}
        />
      </Suspense>
    </Section>
  );
}
