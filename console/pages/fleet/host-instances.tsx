import { Code, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { pathOfAccount, pathOfDeployment } from "../../domain/fleet.ts";
import type { Instance } from "../../domain/nodes.ts";
import { text } from "../../text/fleet-host.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { percent } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import type { NodeDetail } from "./host.tsx";

const words = text.instances;

export function HostInstances({ node }: { node: NodeDetail }): ReactNode {
  return (
    <Section title={words.title}>
      <DataTable
        name="instances"
        id="i-"
        rows={node.instances}
        columns={columns}
        keyOf={({ instance_id: id }) => id}
        empty={words.empty}
      />
    </Section>
  );
}

const columns: readonly Column<Instance>[] = [
  {
    name: words.deployment,
    value: (one) => `${one.deploy_name} ${one.deploy_id}`,
    show: (one) => (
      <>
        <Link to={pathOfDeployment(one.deploy_id)} fw={600} size="sm">
          {one.deploy_name}
        </Link>
        <Text size="xs" c="dimmed">
          {words.kinds[one.kind]}
        </Text>
      </>
    ),
  },
  {
    name: words.customer,
    value: (one) => one.account.email,
    show: (one) => (
      <Link to={pathOfAccount(one.account.uid)} size="sm">
        {one.account.email}
      </Link>
    ),
  },
  { name: words.status, value: (one) => one.phase, show: (one) => <Status of={one.phase} /> },
  { name: words.gpus, value: (one) => one.gpu_uuids.length },
  { name: words.requests, value: (one) => one.in_flight },
  { name: words.waiting, value: (one) => one.waiting },
  { name: words.tokens, value: (one) => Math.round(one.tokens_per_second) },
  {
    name: words.cache,
    value: (one) => one.kv_cache_ratio,
    show: (one) => percent(one.kv_cache_ratio),
    isMinor: true,
  },
  { name: words.restarts, value: (one) => one.restarts },
  {
    name: words.instance,
    value: (one) => one.instance_id,
    show: (one) => <Code>{one.instance_id}</Code>,
    isMinor: true,
  },
];
