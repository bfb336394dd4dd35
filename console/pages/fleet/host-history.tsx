import { SimpleGrid, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { gpuName } from "../../domain/nodes.ts";
import { isRange, linesOf, type MetricsSeries } from "../../domain/series.ts";
import { text } from "../../text/fleet-host.ts";
import { text as overview } from "../../text/overview.ts";
import { TimeChart } from "../../ui/chart.tsx";
import { Choice } from "../../ui/choice.tsx";
import { bytes, count, percent } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import type { NodeDetail } from "./host.tsx";

const words = text.history;

export function HostHistory({ node }: { node: NodeDetail }): ReactNode {
  const [wanted, setRange] = useFilter("range");
  const range = isRange(wanted) ? wanted : "24h";
  const path = (by: string) =>
    `/v1/admin/metrics/series?${new URLSearchParams({ by, node: node.node_id, from: `now-${range}` })}`;
  const host = useGet<MetricsSeries>(path("host"), { everyMs: 30_000 });
  const gpus = useGet<MetricsSeries>(path("gpu"), { everyMs: 30_000 });
  return (
    <Stack gap="md">
      <div>
        <Choice label={overview.range} options={overview.ranges} value={range} onChange={setRange} />
      </div>
      <Loaded query={gpus}>{(found) => <GpuCharts of={found} node={node} />}</Loaded>
      <Loaded query={host}>{(found) => <HostCharts of={found} />}</Loaded>
    </Stack>
  );
}

function GpuCharts({ of, node }: { of: MetricsSeries; node: NodeDetail }): ReactNode {
  const names = new Map(node.gpus.map((gpu) => [gpu.uuid, gpuName(gpu)]));
  const lines = (name: string) =>
    linesOf(of, name)
      .map(({ labels: { gpu = "" }, values }) => ({ name: names.get(gpu) ?? gpu, values }))
      .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Section>
        <TimeChart title={words.use} times={of.times} show={percent} max={1} series={lines("gpu_use_ratio")} />
      </Section>
      <Section>
        <TimeChart title={words.memory} times={of.times} show={bytes} series={lines("gpu_memory_used_bytes")} />
      </Section>
      <Section>
        <TimeChart
          title={words.power}
          times={of.times}
          show={(value) => words.watts(count(Math.round(value)))}
          series={lines("gpu_power_watts")}
        />
      </Section>
      <Section>
        <TimeChart
          title={words.temperature}
          times={of.times}
          show={(value) => words.celsius(count(Math.round(value)))}
          series={lines("gpu_temperature_celsius")}
        />
      </Section>
    </SimpleGrid>
  );
}

function HostCharts({ of }: { of: MetricsSeries }): ReactNode {
  const line = (name: string, label: string) => linesOf(of, name).map(({ values }) => ({ name: label, values }));
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Section>
        <TimeChart
          title={words.requests}
          times={of.times}
          show={count}
          series={[...line("running_requests", words.running), ...line("waiting_requests", words.waiting)]}
        />
      </Section>
      <Section>
        <TimeChart
          title={words.cpu}
          times={of.times}
          show={percent}
          max={1}
          kind="area"
          series={line("cpu_use_ratio", words.cpu)}
        />
      </Section>
      <Section>
        <TimeChart title={words.ram} times={of.times} show={bytes} series={line("memory_used_bytes", words.ram)} />
      </Section>
    </SimpleGrid>
  );
}
