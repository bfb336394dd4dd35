// Metrics of the host under our own names, and of our containers under cAdvisor's names for existing dashboards.
import { Counter, Gauge, type Registry } from "prom-client";
import type { HostUsage } from "./host-usage.ts";
import type { InstanceUsage } from "./instance-usage.ts";

export interface UsedInstance {
  readonly instanceId: string;
  readonly deployId: string;
  readonly image: string;
  readonly startedAt: number;
  readonly seenAt: number;
  readonly usage: InstanceUsage;
  /** In its own layer; measured less often than the rest. */
  readonly writtenBytes?: number | undefined;
}

const labelNames = ["id", "name", "image", "container_label_deploy_id", "container_label_instance_id"] as const;
type Labels = Record<(typeof labelNames)[number], string>;

type Read = (one: UsedInstance) => number | undefined;

const gauges: readonly (readonly [name: string, help: string, read: Read])[] = [
  ["memory_working_set_bytes", "Memory without file pages that can be dropped", (o) => o.usage.workingSetBytes],
  ["memory_usage_bytes", "Memory, file pages included", (o) => o.usage.memoryBytes],
  ["spec_memory_limit_bytes", "Its limit; 0 none", (o) => o.usage.memoryLimitBytes ?? 0],
  ["fs_usage_bytes", "Bytes it has written into its own layer", (o) => o.writtenBytes],
  ["start_time_seconds", "When it started, in unix seconds", (o) => o.startedAt || undefined],
  ["last_seen", "When it was last measured, in unix seconds", (o) => o.seenAt],
];
const counters: typeof gauges = [
  ["cpu_usage_seconds_total", "Processor time", (o) => o.usage.cpuSeconds],
  ["oom_events_total", "Processes killed for want of memory", (o) => o.usage.oomEvents],
];

export function addUsageMetrics(
  registry: Registry,
  host: () => HostUsage | undefined,
  instances: () => readonly UsedInstance[],
): void {
  const registers = [registry];
  const own = (name: string, help: string, read: (usage: HostUsage) => number) =>
    new Gauge({
      name: `stoker_node_${name}`,
      help,
      registers,
      collect() {
        const usage = host();
        if (usage) this.set(read(usage));
      },
    });
  own("cpu_usage_ratio", "Share of all cores in use", (u) => u.cpuRatio);
  own("memory_used_bytes", "Memory that programs cannot have", (u) => u.memoryUsedBytes);
  own("memory_total_bytes", "All memory", (u) => u.memoryTotalBytes);
  own("filesystem_free_bytes", "Free on the file system of the agent's data", (u) => u.diskFreeBytes);
  own("filesystem_size_bytes", "Size of the file system of the agent's data", (u) => u.diskTotalBytes);

  const each = (read: Read, set: (labels: Labels, value: number) => void) => {
    for (const one of instances()) {
      const value = read(one);
      if (value !== undefined) set(labelsOf(one), value);
    }
  };
  for (const [name, help, read] of gauges)
    new Gauge({
      name: `container_${name}`,
      help,
      registers,
      labelNames,
      collect() {
        this.reset();
        each(read, (labels, value) => this.set(labels, value));
      },
    });
  for (const [name, help, read] of counters)
    new Counter({
      name: `container_${name}`,
      help,
      registers,
      labelNames,
      collect() {
        this.reset();
        each(read, (labels, value) => this.inc(labels, value));
      },
    });
  for (const direction of ["receive", "transmit"] as const)
    new Counter({
      name: `container_network_${direction}_bytes_total`,
      help: `Bytes ${direction === "receive" ? "received" : "sent"}`,
      registers,
      labelNames: [...labelNames, "interface"],
      collect() {
        this.reset();
        for (const one of instances())
          for (const { name, receivedBytes, sentBytes } of one.usage.network)
            this.inc({ ...labelsOf(one), interface: name }, direction === "receive" ? receivedBytes : sentBytes);
      },
    });
}

const labelsOf = ({ instanceId, deployId, image, usage }: UsedInstance): Labels => ({
  id: usage.id,
  name: `stoker-${instanceId}`,
  image,
  container_label_deploy_id: deployId,
  container_label_instance_id: instanceId,
});
