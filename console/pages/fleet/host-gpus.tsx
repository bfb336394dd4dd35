import { Group, Progress, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { nodeCommand } from "../../domain/drain.ts";
import { gpuStateOf, pathOfAccount, pathOfDeployment } from "../../domain/fleet.ts";
import { type Gpu, gpuName, gpuTypeOf, healthOf, type Instance } from "../../domain/nodes.ts";
import { text as fleet } from "../../text/fleet.ts";
import { text } from "../../text/fleet-host.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { bytes, percent } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Section } from "../../ui/page.tsx";
import type { NodeDetail } from "./host.tsx";

const words = text.gpus;

export function HostGpus({ node }: { node: NodeDetail }): ReactNode {
  return (
    <Section title={words.title}>
      <DataTable
        name="GPUs"
        id="g-"
        rows={node.gpus}
        columns={columnsOf(node)}
        keyOf={({ uuid }) => uuid}
        empty={words.empty}
      />
    </Section>
  );
}

const instancesOn = (node: NodeDetail, gpu: Gpu): readonly Instance[] =>
  node.instances.filter(({ gpu_uuids: uuids }) => uuids.includes(gpu.uuid));

const memoryRatio = (gpu: Gpu): number | null =>
  gpu.memory_used_bytes === null ? null : gpu.memory_used_bytes / Math.max(1, gpu.memory_bytes);

const columnsOf = (node: NodeDetail): readonly Column<Gpu>[] => [
  {
    name: words.gpu,
    value: (gpu) => `${gpu.index} ${gpuTypeOf(gpu)} ${gpu.uuid}`,
    show: (gpu) => (
      <>
        <Text size="sm" fw={600} className="nowrap" title={gpu.uuid}>
          {gpuName(gpu)}
        </Text>
        <Text size="xs" c="dimmed">
          {gpu.mig_profile ? `${gpu.type} (${gpu.mig_profile})` : gpuTypeOf(gpu)}
        </Text>
      </>
    ),
  },
  {
    name: words.state,
    value: (gpu) => healthOf(gpu).word,
    show: (gpu) => (
      <Text size="sm" maw={220} lineClamp={2} title={healthOf(gpu).word}>
        <span aria-hidden="true">{healthOf(gpu).sign}</span> {healthOf(gpu).word}
      </Text>
    ),
  },
  {
    name: words.runs,
    value: (gpu) =>
      instancesOn(node, gpu)
        .map(({ deploy_name: name, account }) => `${name} ${account.email}`)
        .join(" "),
    show: (gpu) => (gpu.is_claimed || gpu.processes.length > 0) && <Runs node={node} gpu={gpu} />,
  },
  {
    name: words.use,
    value: (gpu) => gpu.utilization_ratio,
    show: (gpu) => <Meter ratio={gpu.utilization_ratio} label={percent(gpu.utilization_ratio)} name={words.use} />,
  },
  {
    name: words.memory,
    value: memoryRatio,
    show: (gpu) => (
      <Meter
        ratio={memoryRatio(gpu)}
        name={words.memory}
        label={
          gpu.memory_used_bytes === null
            ? bytes(gpu.memory_bytes)
            : fleet.map.memory(bytes(gpu.memory_used_bytes), bytes(gpu.memory_bytes))
        }
      />
    ),
  },
  {
    name: words.temperature,
    value: (gpu) => gpu.temperature_celsius,
    show: (gpu) => (gpu.temperature_celsius === null ? "–" : fleet.map.celsius(gpu.temperature_celsius)),
    isMinor: true,
  },
  {
    name: words.power,
    value: (gpu) => gpu.power_watts,
    show: (gpu) => (gpu.power_watts === null ? "–" : fleet.map.watts(gpu.power_watts, gpu.power_limit_watts)),
    isMinor: true,
  },
  actionsColumn((gpu) => gpuStateOf(gpu) === "cordoned" && <Uncordon node={node} gpu={gpu} />),
];

/** Deployments and customers; processes that belong to none are named as the machine names them. */
function Runs({ node, gpu }: { node: NodeDetail; gpu: Gpu }): ReactNode {
  const strangers = gpu.processes.filter(({ instance_id: id }) => id === null);
  return (
    <Stack gap={2}>
      {instancesOn(node, gpu).map(({ instance_id: id, deploy_id: deployment, deploy_name: name, account }) => (
        <div key={id}>
          <Link to={pathOfDeployment(deployment)} size="sm">
            {name}
          </Link>
          <Text size="xs" c="dimmed">
            <Link to={pathOfAccount(account.uid)} c="dimmed" size="xs">
              {account.email}
            </Link>
          </Text>
        </div>
      ))}
      {strangers.length > 0 && (
        <Text size="xs" c="dimmed">
          {words.processes}: {strangers.map((one) => words.process(one.name, bytes(one.memory_bytes))).join(", ")}
        </Text>
      )}
    </Stack>
  );
}

function Meter({ ratio, label, name }: { ratio: number | null; label: string; name: string }): ReactNode {
  return (
    <div className="meter">
      <Text size="xs" className="nowrap">
        {label}
      </Text>
      {ratio !== null && <Progress value={100 * ratio} size="sm" aria-label={`${name}: ${label}`} />}
    </div>
  );
}

function Uncordon({ node, gpu }: { node: NodeDetail; gpu: Gpu }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Group justify="flex-end">
      <Act
        label={text.acts.uncordon}
        color="ember"
        command={nodeCommand("uncordon", node.name, ` --gpu ${gpu.uuid}`)}
        done={text.acts.uncordoned}
        confirm={{
          title: text.acts.uncordonGpu(gpuName(gpu)),
          body: text.acts.uncordonGpuBody(gpu.unhealthy_reason),
        }}
        onAct={async () => {
          await api.call("POST", `/v1/admin/nodes/${encodeURIComponent(node.node_id)}/uncordon`, { gpu: gpu.uuid });
          await refresh("/v1/admin/nodes", "/v1/admin/events");
        }}
      />
    </Group>
  );
}
