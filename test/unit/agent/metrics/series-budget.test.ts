// How many series one agent's page may hold (2 000), on a host that is as full as hosts get, and that they go with what made them.
import { expect, it } from "vitest";
import type { GpuSample } from "../../../../agent/fingerprint/gpu-load.ts";
import { ingressMetrics } from "../../../../agent/ingress/ingress-metrics.ts";
import type { Target } from "../../../../agent/ingress/target.ts";
import { createAgentMetrics } from "../../../../agent/metrics/agent-metrics.ts";
import { addGpuMetrics, type GpuMetricNames } from "../../../../agent/metrics/gpu-metrics.ts";
import { addUsageMetrics, type UsedInstance } from "../../../../agent/metrics/usage-metrics.ts";
import { measuredDriver } from "../../../../agent/wiring/drivers.ts";
import { restartReasons } from "../../../../proto/instance-phase.ts";
import { lint, seriesIn } from "../../../fakes/exposition.ts";

const numbers = (n: number) => Array.from({ length: n }, (_, i) => i);

function fullHost(names: GpuMetricNames = "dcgm", hasDcgmExporter = false) {
  const metrics = createAgentMetrics();
  const { registry } = metrics;
  let models: readonly number[] = [];
  const gpus = numbers(8).map((index) => ({ uuid: `GPU-${index}`, index, healthy: true }));
  const figures = new Proxy({} as GpuSample, { get: (_, key) => (key === "processes" ? [] : 1) });
  const samples = gpus.map(({ uuid, index }) => ({
    ...Object.fromEntries(
      [
        "utilizationRatio",
        "memoryUtilizationRatio",
        "memoryUsedBytes",
        "memoryFreeBytes",
        "memoryTotalBytes",
        "memoryReservedBytes",
        "temperatureCelsius",
        "memoryTemperatureCelsius",
        "powerWatts",
        "powerLimitWatts",
        "smClockHertz",
        "memoryClockHertz",
        "eccUncorrected",
        "remappedRows",
        "rowRemapFailure",
      ].map((key) => [key, figures[key as keyof GpuSample]]),
    ),
    uuid,
    index,
    name: "NVIDIA H200",
    pciBusId: `0000:0${index}:00.0`,
    driverVersion: "570",
  })) as unknown as readonly GpuSample[];
  addGpuMetrics(registry, names, () => ({
    samples,
    ageSeconds: 1,
    known: gpus,
    lastXids: new Map(gpus.map(({ uuid }) => [uuid, 79])),
    allocated: models.map((n) => ({ uuid: `GPU-${n % 8}`, deployId: `d${n}` })),
    node: "n",
    hasDcgmExporter,
  }));
  const used = (n: number): UsedInstance => ({
    instanceId: `i${n}`,
    deployId: `d${n}`,
    image: "image",
    startedAt: 1,
    seenAt: 2,
    writtenBytes: 1,
    usage: {
      id: `/docker/${n}`,
      cpuSeconds: 1,
      memoryBytes: 1,
      workingSetBytes: 1,
      memoryLimitBytes: 1,
      oomEvents: 0,
      pids: [n],
      network: ["eth0", "eth1"].map((name) => ({ name, receivedBytes: 1, sentBytes: 1 })),
    },
  });
  addUsageMetrics(
    registry,
    () => undefined,
    () => models.map(used),
  );
  const targets = () =>
    models.map((n) => ({
      spec: { deployId: `d${n}`, instanceId: `i${n}`, maxBatchSize: 4 },
      running: { size: 1 },
      waiting: 0,
    })) as unknown as readonly Target[];
  ingressMetrics(registry, targets);
  const driver = measuredDriver(
    { list: async () => [], stop: async () => {}, remove: async () => {} } as never,
    registry,
  );
  return {
    metrics,
    async have(next: readonly number[]) {
      for (const n of models) if (!next.includes(n)) metrics.gone(`i${n}`);
      models = next;
      for (const n of next) {
        metrics.phase(`i${n}`, `d${n}`, "ready");
        for (const reason of restartReasons) metrics.restarted(`d${n}`, reason);
      }
    },
    async work() {
      const signal = AbortSignal.timeout(1_000);
      await Promise.all([
        driver.list(signal),
        driver.stop("i" as never, 1, signal),
        driver.remove("i" as never, signal),
      ]);
      for (const part of ["pull", "download", "create", "load", "ready"] as const) metrics.took(part, 1);
      for (const result of ["ok", "rejected_epoch", "duplicate", "failed"] as const)
        for (const type of ["volume.backup", "volume.restore", "_unknown"]) metrics.commanded(type, result);
      for (const op of ["create", "restore"] as const) metrics.backedUp(op, 1);
      for (const page of ["/metrics", "/metrics/runtime", "/inspect"]) metrics.served(page, 0.001);
    },
    page: () => registry.metrics(),
  };
}

it("has every name of the convention, under its own type", async () => {
  const host = fullHost();
  await host.work();
  await host.have(numbers(2));
  const page = await host.page();
  const typed = (type: string, prefix: string, names: string) =>
    names.split(" ").filter((name) => !page.includes(`# TYPE ${prefix}${name} ${type}\n`));
  const absent = [
    ...typed("gauge", "stoker_", "agent_info agent_control_connected agent_lease_remaining_seconds agent_epoch"),
    ...typed("gauge", "stoker_agent_", "heartbeat_rtt_seconds clock_skew_seconds"),
    ...typed("gauge", "stoker_agent_spool_", "records oldest_age_seconds bytes"),
    ...typed("gauge", "stoker_", "instance_state gpu_allocated gpu_healthy gpu_sample_age_seconds"),
    ...typed("gauge", "stoker_", "backup_last_success_timestamp_seconds"),
    ...typed("counter", "stoker_", "agent_reconnects_total instance_restarts_total download_bytes_total"),
    ...typed("counter", "stoker_", "download_failures_total docker_errors_total commands_total scrape_errors_total"),
    ...typed("histogram", "stoker_", "instance_start_seconds backup_seconds docker_request_seconds"),
    ...typed("counter", "container_", "cpu_usage_seconds_total oom_events_total"),
    ...typed("counter", "container_network_", "receive_bytes_total transmit_bytes_total"),
    ...typed("gauge", "container_", "memory_working_set_bytes memory_usage_bytes spec_memory_limit_bytes"),
    ...typed("gauge", "container_", "fs_usage_bytes start_time_seconds last_seen"),
    ...typed("gauge", "DCGM_FI_DEV_", "GPU_UTIL MEM_COPY_UTIL FB_USED FB_FREE FB_RESERVED GPU_TEMP MEMORY_TEMP"),
    ...typed("gauge", "DCGM_FI_DEV_", "POWER_USAGE SM_CLOCK MEM_CLOCK XID_ERRORS"),
  ];
  expect(absent).toEqual([]);
  for (const name of ["ECC_DBE_VOL_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE"])
    expect(page).toMatch(new RegExp(`^DCGM_FI_DEV_${name}\\{gpu="0",UUID="GPU-0",pci_bus_id=`, "m"));
});

it("leaves the DCGM names to the DCGM exporter where it runs", async () => {
  expect(await fullHost("dcgm", true).page()).not.toMatch(/^DCGM_FI_DEV_/m);
  expect(await fullHost("dcgm", false).page()).toMatch(/^DCGM_FI_DEV_GPU_UTIL\{/m);
});

it("stays within 2 000 series with 50 models on 8 GPUs, and returns to its own series when they are gone", async () => {
  const host = fullHost();
  await host.work();
  await host.have([]);
  const before = seriesIn(await host.page()).length;
  await host.have(numbers(50));
  const full = seriesIn(await host.page());
  expect(full.filter((line) => line.includes('instance_id="i49"')).length).toBeGreaterThan(10);
  expect(full.length).toBeGreaterThan(before + 500);
  expect(full.length).toBeLessThanOrEqual(2_000);
  // The fiftieth alone goes, and nobody else's with it.
  await host.have(numbers(49));
  expect((await host.page()).includes('"d49"')).toBe(false);
  await host.have([]);
  expect(seriesIn(await host.page())).toHaveLength(before);
});

it("satisfies Prometheus's linter except for DCGM's names", async (context) => {
  const host = fullHost("native");
  await host.work();
  await host.have(numbers(2));
  const found = lint(await host.page());
  if (found === undefined) return context.skip("promtool is not installed");
  expect(found).toBe("");
});

it("has no time of the last backup without any backup", async () => {
  const { registry } = createAgentMetrics();
  const name = /^stoker_backup_last_success_timestamp_seconds/m;
  expect(await registry.metrics()).not.toMatch(name);
});
