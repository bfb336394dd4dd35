// The agent's metrics page. Values are read from memory at the scrape; nothing here waits for a driver, a socket or a file.
import { Counter, Gauge, Histogram, Registry } from "prom-client";

export interface AgentFacts {
  session(): {
    readonly isConnected: boolean;
    readonly isFenced: boolean;
    readonly nodeEpoch: bigint;
    readonly leaseRemainingSeconds: number;
    readonly reconnects: ReadonlyMap<string, number>;
  };
  clock(): { readonly skewSeconds: number; readonly roundTripSeconds: number };
  /** Undefined: it has none, or does not use any. */
  certificateSecondsLeft?(): number | undefined;
  /** Samples that failed, by source. */
  errors(): Readonly<Record<string, number>>;
  spool(): { readonly records: number; readonly oldestAgeSeconds: number; readonly bytes: number };
}

export type CommandEnd = "ok" | "rejected_epoch" | "duplicate" | "failed";

export interface AgentMetrics {
  readonly registry: Registry;
  /** Sets the source of the gauges; before that they have no values. */
  observe(facts: AgentFacts): void;
  info(labels: Readonly<Record<(typeof infoLabels)[number], string>>): void;
  phase(instanceId: string, deployId: string, phase: string): void;
  took(part: string, seconds: number): void;
  downloaded(source: string, bytes: number): void;
  downloadFailed(code: string): void;
  restarted(deployId: string, reason: string): void;
  /** A command of the control plane that was answered. */
  commanded(type: string, result: CommandEnd): void;
  /** A backup or restore that succeeded. */
  backedUp(op: "create" | "restore", seconds: number): void;
  /** One of these pages was made and sent. */
  served(page: string, seconds: number): void;
  gone(instanceId: string): void;
}

const infoLabels = ["version", "node", "driver_version", "cuda_version", "docker_version"] as const;

/** `lastBackupBefore`: in unix seconds, of the agent before this one. */
export function createAgentMetrics(lastBackupBefore?: number): AgentMetrics {
  const registry = new Registry();
  const registers = [registry];
  let facts: AgentFacts | undefined;
  const known = new Map<string, { readonly deployId: string; readonly phase: string }>();

  const gauge = (name: string, help: string, read: (facts: AgentFacts) => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        if (facts) this.set(read(facts));
      },
    });
  const info = new Gauge({
    name: "stoker_agent_info",
    help: "Versions of this agent and its host",
    registers,
    labelNames: infoLabels,
  });
  gauge("stoker_agent_control_connected", "1 while a session with the control plane is open", (f) =>
    Number(f.session().isConnected),
  );
  gauge(
    "stoker_agent_fenced",
    "1 while nothing is served or started here: revoked, or another agent has its identity",
    (f) => Number(f.session().isFenced),
  );
  gauge(
    "stoker_agent_lease_remaining_seconds",
    "Until the control plane takes this host for unreachable",
    (f) => f.session().leaseRemainingSeconds,
  );
  gauge("stoker_agent_epoch", "Node epoch of the newest session", (f) => Number(f.session().nodeEpoch));
  gauge("stoker_agent_heartbeat_rtt_seconds", "Round trip of the last renewal", (f) => f.clock().roundTripSeconds);
  gauge("stoker_agent_clock_skew_seconds", "This host's clock minus the control plane's", (f) => f.clock().skewSeconds);
  new Gauge({
    name: "stoker_agent_certificate_remaining_seconds",
    help: "Until this host's certificate expires; it is renewed with a third of its life left. Absent without one",
    registers,
    collect() {
      const left = facts?.certificateSecondsLeft?.();
      if (left === undefined) this.remove();
      else this.set(left);
    },
  });
  gauge("stoker_agent_spool_records", "Usage records not yet acknowledged", (f) => f.spool().records);
  gauge("stoker_agent_spool_oldest_age_seconds", "Age of the oldest of them", (f) => f.spool().oldestAgeSeconds);
  gauge("stoker_agent_spool_bytes", "Bytes of them", (f) => f.spool().bytes);
  new Counter({
    name: "stoker_agent_reconnects_total",
    help: "Sessions that ended, by why",
    registers,
    labelNames: ["reason"],
    collect() {
      this.reset();
      for (const [reason, count] of facts?.session().reconnects ?? []) this.inc({ reason }, count);
    },
  });
  new Counter({
    name: "stoker_scrape_errors_total",
    help: "Samples that failed, by what was asked; the page goes on with the last ones",
    registers,
    labelNames: ["source"],
    collect() {
      this.reset();
      for (const [source, count] of Object.entries(facts?.errors() ?? {})) this.inc({ source }, count);
    },
  });
  new Gauge({
    name: "stoker_instance_state",
    help: "1 for the phase an instance is in",
    registers,
    labelNames: ["deploy_id", "instance_id", "state"],
    collect() {
      this.reset();
      for (const [id, { deployId, phase }] of known)
        this.set({ deploy_id: deployId, instance_id: id, state: phase }, 1);
    },
  });
  const restarts = new Counter({
    name: "stoker_instance_restarts_total",
    help: "Restarts of model servers, by why",
    registers,
    labelNames: ["deploy_id", "reason"],
  });
  const starts = new Histogram({
    name: "stoker_instance_start_seconds",
    help: "Parts of a start; ready is all of it",
    registers,
    labelNames: ["phase"],
    buckets: [1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800],
  });
  const bytes = new Counter({
    name: "stoker_download_bytes_total",
    help: "Bytes of weights that came to this host",
    registers,
    labelNames: ["source"],
  });
  const failures = new Counter({
    name: "stoker_download_failures_total",
    help: "Weights that could not be fetched, by why",
    registers,
    labelNames: ["code"],
  });
  const commands = new Counter({
    name: "stoker_commands_total",
    help: "Commands of control planes, by kind and how they ended",
    registers,
    labelNames: ["type", "result"],
  });
  const backups = new Histogram({
    name: "stoker_backup_seconds",
    help: "Time of backups and restores of volumes that succeeded",
    registers,
    labelNames: ["op"],
    buckets: [1, 5, 15, 60, 300, 900, 3600],
  });
  let lastBackup = lastBackupBefore;
  new Gauge({
    name: "stoker_backup_last_success_timestamp_seconds",
    help: "When a backup last succeeded here, in unix seconds; absent before the first",
    registers,
    collect() {
      if (lastBackup === undefined) this.remove();
      else this.set(lastBackup);
    },
  });
  const pages = new Histogram({
    name: "stoker_metrics_page_seconds",
    help: "Time this process took to make and send a page, the network left out",
    registers,
    labelNames: ["page"],
    buckets: [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 2],
  });

  return {
    registry,
    observe: (given) => {
      facts = given;
    },
    info: (labels) => {
      info.reset();
      info.set(labels, 1);
    },
    phase: (id, deployId, phase) => void known.set(id, { deployId, phase }),
    took: (phase, seconds) => starts.observe({ phase }, seconds),
    downloaded: (source, count) => bytes.inc({ source }, count),
    downloadFailed: (code) => failures.inc({ code }),
    restarted: (deployId, reason) => restarts.inc({ deploy_id: deployId, reason }),
    commanded: (type, result) => commands.inc({ type, result }),
    backedUp(op, seconds) {
      backups.observe({ op }, seconds);
      if (op === "create") lastBackup = Date.now() / 1000;
    },
    served: (page, seconds) => pages.observe({ page }, seconds),
    gone(id) {
      const deployId = known.get(id)?.deployId;
      known.delete(id);
      // The series of a deployment go with its last instance here.
      if (deployId === undefined || [...known.values()].some((one) => one.deployId === deployId)) return;
      for (const reason of ["oom", "exit", "health", "gpu_lost", "operator"])
        restarts.remove({ deploy_id: deployId, reason });
    },
  };
}
