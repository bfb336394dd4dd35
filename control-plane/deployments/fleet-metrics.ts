// Hosts, GPUs, deployments and sessions as metrics. A scrape reads the last sample from memory and never waits.
import { Gauge, Histogram, type Registry } from "prom-client";
import { repeat } from "../../proto/repeat.ts";
import { plainWarning } from "../fleet/dial.ts";
import type { HostView } from "../fleet/host.ts";
import { deploymentStatuses } from "./deployment.ts";
import type { Transition } from "./deployment-steps.ts";

/** One group of Prometheus's http_sd. */
export interface ScrapeTargets {
  readonly targets: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

export interface FleetMetrics {
  onTransition(transition: Transition): void;
  watch(sources: FleetSources): void;
  /** Metrics pages of the agents and of their engines, as of the last sample. */
  targets(): readonly ScrapeTargets[];
  /** Samples the hosts periodically until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

export interface FleetSources {
  readonly snapshot: () => Promise<readonly HostView[]>;
  readonly sessions: () => number;
  readonly needsReconcile: () => boolean;
  readonly deployments: () => ReadonlyMap<string, number>;
}

const everyMs = 10_000;

export function createFleetMetrics(registry: Registry): FleetMetrics {
  const registers = [registry];
  let sources: FleetSources | undefined;
  let targets: readonly ScrapeTargets[] = [];
  const seconds = new Histogram({
    name: "stoker_deploy_transition_seconds",
    help: "Time a deployment spent in a status before the next",
    labelNames: ["from", "to"] as const,
    buckets: [0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_200, 1_800],
    registers,
  });
  const nodes = new Gauge({ name: "stoker_nodes", help: "Hosts by state", labelNames: ["state"] as const, registers });
  const gpus = new Gauge({
    name: "stoker_gpus",
    help: "GPUs by type and state",
    labelNames: ["type", "state"] as const,
    registers,
  });
  new Gauge({
    name: "stoker_deployments",
    help: "Deployments by status, without deleted ones",
    labelNames: ["status"] as const,
    registers,
    collect() {
      const counts = sources?.deployments();
      for (const status of deploymentStatuses) if (status !== "deleted") this.set({ status }, counts?.get(status) ?? 0);
    },
  });
  new Gauge({
    name: "stoker_agent_sessions",
    help: "Agent sessions of this replica",
    registers,
    collect() {
      this.set(sources?.sessions() ?? 0);
    },
  });

  new Gauge({
    name: "stoker_database_needs_reconcile",
    help: "1: the database was restored, and hosts are still sending their stored usage records again",
    registers,
    collect() {
      this.set(sources?.needsReconcile() ? 1 : 0);
    },
  });

  const alerts = new Gauge({
    name: "stoker_node_alerts",
    help: "Hosts with a cloned identity, state from a newer control plane, a revoked certificate, unknown instances, or an unencrypted data path",
    labelNames: ["alert"] as const,
    registers,
  });

  function show(hosts: readonly HostView[]): void {
    targets = scrapeTargets(hosts);
    nodes.reset();
    gpus.reset();
    for (const alert of ["cloned_identity", "control_plane_behind", "revoked", "unknown_instances"])
      alerts.set({ alert }, hosts.filter((host) => host.condition.split("; ").some(isOf(alert))).length);
    alerts.set({ alert: "data_path_plain" }, hosts.filter((host) => plainWarning(host.advertise)).length);
    for (const state of ["ready", "not_schedulable", "unreachable", "lost"]) nodes.set({ state }, 0);
    for (const host of hosts) {
      nodes.inc({ state: nodeState(host) });
      const claimed = new Set(host.claims.map((claim) => claim.gpuUuid));
      for (const gpu of host.inventory.gpus) {
        const state = gpu.isHealthy ? (claimed.has(gpu.uuid) ? "allocated" : "free") : "unhealthy";
        gpus.inc({ type: gpu.type, state });
      }
    }
  }

  return {
    onTransition: ({ from, to, seconds: spent }) => seconds.observe({ from, to }, spent),
    targets: () => targets,
    watch(from) {
      sources = from;
    },
    // The last sample stays while the database is unavailable.
    run: (signal) => repeat(everyMs, signal, () => sources?.snapshot().then(show, () => {})),
  };
}

/** Includes unreachable hosts, so that a failed scrape shows them. */
export function scrapeTargets(
  hosts: readonly Pick<HostView, "id" | "hostname" | "pool" | "inventory">[],
): ScrapeTargets[] {
  return hosts
    .filter(({ inventory }) => inventory.metricsAddress)
    .flatMap(({ id, hostname, pool, inventory }) =>
      ["/metrics", "/metrics/runtime"].map((path) => ({
        targets: [inventory.metricsAddress],
        labels: {
          node: hostname,
          node_id: id,
          ...(pool === "" ? {} : { pool }),
          page: path.slice(1),
          __metrics_path__: path,
        },
      })),
    );
}

const isOf = (alert: string) => (condition: string) => condition.startsWith(`${alert}: `);

/** `ready`, or why the host accepts no instances. */
export function nodeState(host: Pick<HostView, "state" | "schedulable">): string {
  if (host.state !== "live") return host.state;
  return host.schedulable ? "ready" : "not_schedulable";
}
