// The agent's metrics page. Values are read from memory at the scrape; nothing here waits for a driver, a socket or a file.
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { restartReasons } from "../../proto/instance-phase.ts";

interface AgentFacts {
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
  errors(): Readonly<Record<string, number>>;
  spool(): { readonly records: number; readonly oldestAgeSeconds: number; readonly bytes: number };
}

type CommandEnd = "ok" | "rejected_epoch" | "duplicate" | "failed";

export type AgentMetrics = ReturnType<typeof createAgentMetrics>;

const infoLabels = ["version", "node", "driver_version", "cuda_version", "docker_version"] as const;

/** Nothing is shown before `facts` are known. */
function addAgentGauges(registers: Registry[], factsNow: () => AgentFacts | undefined): void {
  /** Undefined removes the series. */
  const gauge = (name: string, help: string, read: (facts: AgentFacts) => number | undefined) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        const facts = factsNow();
        const value = facts && read(facts);
        if (value === undefined) this.remove();
        else this.set(value);
      },
    });
  const counts = (name: string, help: string, label: string, read: (facts: AgentFacts) => Iterable<[string, number]>) =>
    new Counter({
      name,
      help,
      registers,
      labelNames: [label],
      collect() {
        this.reset();
        const facts = factsNow();
        for (const [value, count] of facts ? read(facts) : []) this.inc({ [label]: value }, count);
      },
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
    "Seconds until the control plane treats this host as unreachable",
    (f) => f.session().leaseRemainingSeconds,
  );
  gauge("stoker_agent_epoch", "Node epoch of the newest session", (f) => Number(f.session().nodeEpoch));
  gauge("stoker_agent_heartbeat_rtt_seconds", "Round trip of the last renewal", (f) => f.clock().roundTripSeconds);
  gauge("stoker_agent_clock_skew_seconds", "This host's clock minus the control plane's", (f) => f.clock().skewSeconds);
  gauge(
    "stoker_agent_certificate_remaining_seconds",
    "Until this host's certificate expires; it is renewed with a third of its life left. Absent without one",
    (f) => f.certificateSecondsLeft?.(),
  );
  gauge("stoker_agent_spool_records", "Usage records not yet acknowledged", (f) => f.spool().records);
  gauge("stoker_agent_spool_oldest_age_seconds", "Age of the oldest of them", (f) => f.spool().oldestAgeSeconds);
  gauge("stoker_agent_spool_bytes", "Bytes of them", (f) => f.spool().bytes);
  counts("stoker_agent_reconnects_total", "Sessions that ended, by reason", "reason", (f) => f.session().reconnects);
  counts(
    "stoker_scrape_errors_total",
    "Failed samples by source; the page shows the last successful ones",
    "source",
    (f) => Object.entries(f.errors()),
  );
}

/** `lastBackupBefore`: in unix seconds, of the agent before this one. */
export function createAgentMetrics(lastBackupBefore?: number) {
  const registry = new Registry();
  const registers = [registry];
  let facts: AgentFacts | undefined;
  const known = new Map<string, { readonly deployId: string; readonly phase: string }>();

  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
    new Counter<Label>({ name, help, registers, labelNames });
  const histogram = <Label extends string>(name: string, help: string, label: Label, buckets: number[]) =>
    new Histogram<Label>({ name, help, registers, labelNames: [label], buckets });
  const info = new Gauge({
    name: "stoker_agent_info",
    help: "Versions of this agent and its host",
    registers,
    labelNames: infoLabels,
  });
  addAgentGauges(registers, () => facts);
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
  const restarts = counter("stoker_instance_restarts_total", "Restarts of model servers, by why", [
    "deploy_id",
    "reason",
  ]);
  const starts = histogram(
    "stoker_instance_start_seconds",
    "Parts of a start; ready is all of it",
    "phase",
    [1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800],
  );
  const bytes = counter("stoker_download_bytes_total", "Bytes of weights that came to this host", ["source"]);
  const failures = counter("stoker_download_failures_total", "Weights that could not be fetched, by why", ["code"]);
  const commands = counter("stoker_commands_total", "Commands of control planes, by kind and how they ended", [
    "type",
    "result",
  ]);
  const backups = histogram(
    "stoker_backup_seconds",
    "Time of backups and restores of volumes that succeeded",
    "op",
    [1, 5, 15, 60, 300, 900, 3600],
  );
  let lastBackup = lastBackupBefore;
  new Gauge({
    name: "stoker_backup_last_success_timestamp_seconds",
    help: "Unix time of the last successful backup on this host; absent before the first",
    registers,
    collect() {
      if (lastBackup === undefined) this.remove();
      else this.set(lastBackup);
    },
  });
  const pages = histogram(
    "stoker_metrics_page_seconds",
    "Time this process took to make and send a page, the network left out",
    "page",
    [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 2],
  );

  return {
    registry,
    /** Sets the source of the gauges; before that they have no values. */
    observe: (given: AgentFacts) => {
      facts = given;
    },
    info: (labels: Readonly<Record<(typeof infoLabels)[number], string>>) => {
      info.reset();
      info.set(labels, 1);
    },
    phase(id: string, deployId: string, phase: string) {
      known.set(id, { deployId, phase });
      // Prometheus' `increase` does not count the first value of a series.
      for (const reason of restartReasons) restarts.inc({ deploy_id: deployId, reason }, 0);
    },
    took: (phase: string, seconds: number) => starts.observe({ phase }, seconds),
    downloaded: (source: string, count: number) => bytes.inc({ source }, count),
    downloadFailed: (code: string) => failures.inc({ code }),
    restarted: (deployId: string, reason: string) => restarts.inc({ deploy_id: deployId, reason }),
    commanded: (type: string, result: CommandEnd) => commands.inc({ type, result }),
    backedUp(op: "create" | "restore", seconds: number) {
      backups.observe({ op }, seconds);
      if (op === "create") lastBackup = Date.now() / 1000;
    },
    served: (page: string, seconds: number) => pages.observe({ page }, seconds),
    gone(id: string) {
      const deployId = known.get(id)?.deployId;
      known.delete(id);
      // The series of a deployment go with its last instance here.
      if (deployId === undefined || [...known.values()].some((one) => one.deployId === deployId)) return;
      for (const reason of restartReasons) restarts.remove({ deploy_id: deployId, reason });
    },
  };
}
