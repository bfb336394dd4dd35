// Requests, latencies and outcomes of a deployment over time.
import { SimpleGrid, Stack, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { endingOf } from "../../domain/request-phases.ts";
import { text } from "../../text/deployments.ts";
import { TimeChart } from "../../ui/chart.tsx";
import { Choice } from "../../ui/choice.tsx";
import { count } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Section } from "../../ui/page.tsx";

type Series = Responses["GET /v1/deployments/{deploy_id}/series"];

const words = text.metrics;
const inMs = (value: number): string => words.ms(count(value < 10 ? Math.round(value * 10) / 10 : Math.round(value)));

export function Metrics({ id }: { id: string }): ReactNode {
  const [from, setFrom] = useFilter("period");
  const query = new URLSearchParams({ steps: "60", ...(from === "" ? {} : { from }) });
  const series = useGet<Series>(`/v1/deployments/${encodeURIComponent(id)}/series?${query}`, { everyMs: 30_000 });
  return (
    <Stack gap="md">
      <div>
        <Choice label={words.period} options={words.periods} value={from} onChange={setFrom} />
      </div>
      <Loaded query={series}>
        {(found) => (Object.keys(found.end_reasons).length === 0 ? <Empty>{words.none}</Empty> : <Charts of={found} />)}
      </Loaded>
    </Stack>
  );
}

function Charts({ of: { steps, step_seconds: seconds, end_reasons: reasons } }: { of: Series }): ReactNode {
  const times = steps.map((step) => step.from);
  const pairs = (name: "first_byte_ms" | "total_ms") => [
    { name: words.median, values: steps.map((step) => step[name]?.p50 ?? null) },
    { name: words.p95, values: steps.map((step) => step[name]?.p95 ?? null) },
  ];
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
      <Section>
        <TimeChart
          title={words.requests}
          times={times}
          kind="bars"
          show={count}
          series={[
            { name: words.succeeded, values: steps.map((step) => step.requests - step.errors) },
            { name: words.failed, values: steps.map((step) => step.errors) },
          ]}
        />
      </Section>
      <Section>
        <TimeChart title={words.firstByte} times={times} show={inMs} series={pairs("first_byte_ms")} />
      </Section>
      <Section>
        <TimeChart title={words.total} times={times} show={inMs} series={pairs("total_ms")} />
      </Section>
      <Section>
        <TimeChart
          title={words.queue}
          times={times}
          show={inMs}
          series={[{ name: words.p95, values: steps.map((step) => step.queue_ms_p95) }]}
        />
      </Section>
      <Section>
        <TimeChart
          title={words.output}
          times={times}
          kind="area"
          show={(value) => words.perSecond(count(value))}
          series={[{ name: words.output, values: steps.map((step) => step.output_tokens / seconds) }]}
        />
      </Section>
      <Section title={words.outcomes}>
        <Table aria-label={words.outcomes}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{words.outcome}</Table.Th>
              <Table.Th className="number">{words.requests}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {Object.entries(reasons).map(([reason, requests]) => {
              const { label, isFailure, means } = endingOf(reason);
              return (
                <Table.Tr key={reason}>
                  <Table.Td>
                    <span aria-hidden="true">{isFailure ? "✕" : "●"}</span> {label}
                    <Text size="xs" c="dimmed">
                      {means}
                    </Text>
                  </Table.Td>
                  <Table.Td className="number">{count(requests)}</Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Section>
    </SimpleGrid>
  );
}
