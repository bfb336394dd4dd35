// Decides what is an incident. Pure: the same facts give the same incidents, so that they can be compared with those that are open.
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";
import type { NodeView } from "../fleet/host-operations.ts";
import type { NoticedRestore } from "../fleet/store.ts";

/** From the least severe; stored by position. */
export const severities = ["", "info", "warning", "critical"] as const;
export type Severity = Exclude<(typeof severities)[number], "">;

export const incidentKinds = [
  "host_silent",
  "host_condition",
  "host_warning",
  "gpu_unhealthy",
  "spool_old",
  "deployment_failed",
  "deployment_crashing",
  "deployment_waiting",
  "webhook_failing",
  "ledger_imbalance",
  "usage_quarantined",
  "platform_loss",
  "restore_pending",
  "restore_incomplete",
  "backup_stale",
  "database_backup_stale",
] as const;
export type IncidentKind = (typeof incidentKinds)[number];

export interface FoundIncident {
  readonly kind: IncidentKind;
  /** Identifies it among those of its kind. */
  readonly subject: string;
  readonly severity: Severity;
  /** One sentence. */
  readonly summary: string;
  readonly advice: string;
  readonly account?: AccountId | undefined;
  readonly deployment?: DeploymentId | undefined;
  readonly host?: HostId | undefined;
  readonly gpu?: string | undefined;
}

interface TroubledDeployment {
  readonly id: DeploymentId;
  readonly name: string;
  readonly account: AccountId;
  readonly email: string;
  readonly trouble: "failed" | "crashing" | "waiting" | "backup";
  readonly reason: string;
}

interface FailingReceiver {
  readonly account: AccountId;
  readonly email: string;
  /** Host and port. */
  readonly receiver: string;
  /** Calls that will be repeated after a failure. */
  readonly retrying: number;
  /** Calls given up in the last hour. */
  readonly exhausted: number;
  readonly outcome: string;
}

/** Facts that only the database has. */
export interface IncidentFacts {
  readonly revokedHosts: ReadonlySet<HostId>;
  readonly deployments: readonly TroubledDeployment[];
  readonly receivers: readonly FailingReceiver[];
  /** Nano-USD. */
  readonly imbalance: bigint;
  readonly lossOfHour: bigint;
  readonly quarantined: number;
  readonly backups: BackupFacts;
}

export interface BackupFacts {
  /** When the first account was created; undefined: there is none. */
  readonly installedAt: Date | undefined;
  /** Undefined: the database notes no backup of itself. */
  readonly newestAt: Date | undefined;
  /** Last trial restore that succeeded. */
  readonly verifiedAt: Date | undefined;
}

/** Usage records older than this cannot be sent. */
const oldSpoolSeconds = 120;
/** An incomplete restore is shown for this long after it ended. */
const restoreShownMs = 7 * 86_400_000;
/** Agents keep acknowledged usage for 48 hours, so a backup that is not much older than a day loses none. */
const maxBackupAgeMs = 26 * 3_600_000;
const maxTrialAgeMs = 8 * 86_400_000;
const maxNames = 5;

export function judge(
  facts: IncidentFacts,
  nodes: readonly NodeView[],
  restores: readonly NoticedRestore[],
  nowMs: number,
): readonly FoundIncident[] {
  return [
    ...nodes.filter(({ id }) => !facts.revokedHosts.has(id)).flatMap(ofNode),
    ...facts.deployments.map(ofDeployment),
    ...facts.receivers.map(ofReceiver),
    ...ofMoney(facts),
    ...ofBackups(facts.backups, nowMs),
    ...restores.flatMap((restore) => ofRestore(restore, nowMs)),
  ];
}

function ofNode(node: NodeView): FoundIncident[] {
  const { id: host, hostname: name, state, condition, inventory, figures } = node;
  const of = (kind: IncidentKind, severity: Severity, summary: string, advice: string) =>
    ({ kind, subject: host, severity, summary, advice, host }) as const;
  const found: FoundIncident[] = [];
  if (state === "lost")
    found.push(
      of(
        "host_silent",
        "critical",
        `${name} does not report and counts as lost: its models are placed on other hosts.`,
        "Check that the machine runs and reaches this server. Agent instances and rented containers wait for it, because their data is on its disks.",
      ),
    );
  else if (state === "unreachable")
    found.push(
      of(
        "host_silent",
        "warning",
        `${name} does not report and gets no requests.`,
        "Check that the machine runs and reaches this server. If it stays silent, its models start on other hosts.",
      ),
    );
  if (condition !== "")
    found.push(
      of(
        "host_condition",
        "warning",
        `${name} gets no new instances: ${condition}.`,
        "See the host. Cordon it to keep it out of use, or drain it.",
      ),
    );
  if (inventory.warnings.length > 0)
    found.push(of("host_warning", "info", `${name}: ${inventory.warnings.join("; ")}.`, "See the host."));
  for (const { uuid, index, isHealthy, unhealthyReason } of inventory.gpus)
    if (!isHealthy)
      found.push({
        ...of(
          "gpu_unhealthy",
          "warning",
          `GPU ${index} of ${name} is out of use: ${unhealthyReason || "it is unhealthy"}.`,
          "Repair or replace it, then return it with `stoker node uncordon`.",
        ),
        subject: `${host}/${uuid}`,
        gpu: uuid,
      });
  const age = figures?.live.spool.oldestAgeSeconds ?? 0;
  if (state === "live" && age > oldSpoolSeconds)
    found.push(
      of(
        "spool_old",
        "warning",
        `${name} has usage records that have not been billed for more than ${oldSpoolSeconds} s.`,
        "Check that the host reaches the control plane, and the control plane its database. No usage is lost.",
      ),
    );
  return found;
}

function ofDeployment({ id, name, account, email, trouble, reason }: TroubledDeployment): FoundIncident {
  const because = reason === "" ? "." : `: ${reason.replace(/\.$/, "")}.`;
  const said = {
    failed: {
      kind: "deployment_failed",
      severity: "warning",
      summary: `${name} of ${email} failed${because}`,
      advice: "See its events and logs. Its owner sees the reason too.",
    },
    crashing: {
      kind: "deployment_crashing",
      severity: "warning",
      summary: `An instance of ${name} of ${email} does not start${because}`,
      advice: "See its events and logs. The agent starts it again, at longer and longer intervals.",
    },
    waiting: {
      kind: "deployment_waiting",
      severity: "warning",
      summary: `${name} of ${email} waits for a host${because}`,
      advice: "Add or free GPUs of its type, or return cordoned hosts.",
    },
    backup: {
      kind: "backup_stale",
      severity: "warning",
      summary: `${name} of ${email} has no recent backup${because}`,
      advice: "Check the disk and the backup store of its host.",
    },
  } as const;
  return { ...said[trouble], subject: id, account, deployment: id };
}

function ofReceiver({ account, email, receiver, retrying, exhausted, outcome }: FailingReceiver): FoundIncident {
  return {
    kind: "webhook_failing",
    subject: `${account}/${receiver}`,
    severity: exhausted > 0 ? "warning" : "info",
    summary: `Webhook calls of ${email} to ${receiver} fail${outcome === "" ? "" : ` (${outcome})`}: ${retrying} are repeated, ${exhausted} were given up in the last hour.`,
    advice: "The receiver must answer 2xx within its time limit. Its owner can send the calls again.",
    account,
  };
}

const usd = (nano: bigint) => `${(Number(nano) / 1e9).toFixed(6).replace(/\.?0+$/, "")} USD`;

function ofMoney({ imbalance, lossOfHour, quarantined }: IncidentFacts): FoundIncident[] {
  const found: FoundIncident[] = [];
  if (imbalance !== 0n)
    found.push({
      kind: "ledger_imbalance",
      subject: "",
      severity: "critical",
      summary: `The ledger is out of balance by ${usd(imbalance)}.`,
      advice: "This is a defect. Keep the logs and report it.",
    });
  if (quarantined > 0)
    found.push({
      kind: "usage_quarantined",
      subject: "",
      severity: "warning",
      summary: `${quarantined} usage records are in quarantine and not billed.`,
      advice:
        "A host sent usage that could not be verified. Release or discard it with `stoker admin quarantine`. Revoke the host if you do not trust it.",
    });
  if (lossOfHour !== 0n)
    found.push({
      kind: "platform_loss",
      subject: "",
      severity: "info",
      summary: `${usd(lossOfHour)} of usage in the last hour was not charged.`,
      advice: "Records were late or duplicate, or exceeded a limit.",
    });
  return found;
}

function ofBackups({ installedAt, newestAt, verifiedAt }: BackupFacts, nowMs: number): FoundIncident[] {
  const isOlder = (at: Date, maxMs: number) => nowMs - at.getTime() > maxMs;
  const of = (severity: Severity, summary: string): FoundIncident[] => [
    {
      kind: "database_backup_stale",
      subject: "",
      severity,
      summary,
      advice: "Run `stoker admin backup create` on a control plane's machine, at least every 24 hours.",
    },
  ];
  if (!newestAt)
    return installedAt && isOlder(installedAt, maxBackupAgeMs)
      ? of("info", "The database has no backup that it knows of.")
      : [];
  if (isOlder(newestAt, maxBackupAgeMs))
    return of("warning", `The last backup of the database is of ${minute(newestAt)}.`);
  if (!verifiedAt || isOlder(verifiedAt, maxTrialAgeMs))
    return of(
      "warning",
      verifiedAt
        ? `The last successful trial restore of a backup was at ${minute(verifiedAt)}.`
        : "No backup of the database was restored on trial.",
    );
  return [];
}

function ofRestore({ id, beganAt, endsBy, endedAt, awaited, report }: NoticedRestore, nowMs: number): FoundIncident[] {
  if (endedAt === undefined) {
    const names = awaited.slice(0, maxNames).map(({ name }) => name);
    const rest = awaited.length > maxNames ? ` and ${awaited.length - maxNames} more` : "";
    return [
      {
        kind: "restore_pending",
        subject: id,
        severity: "critical",
        summary: `The database was restored (noticed ${minute(beganAt)}), and usage records of ${names.join(", ") || "no hosts"}${rest} are awaited until ${minute(endsBy)}.`,
        advice: "Start stopped agents. `stoker admin restores` shows the report.",
      },
    ];
  }
  const isComplete = !report || (report.missingHosts.length === 0 && report.lostAtMost === 0);
  if (isComplete || nowMs - endedAt.getTime() > restoreShownMs) return [];
  return [
    {
      kind: "restore_incomplete",
      subject: id,
      severity: "warning",
      summary: `The restored database may miss usage: hosts dropped at most ${report.lostAtMost} records, and ${report.missingHosts.length} hosts did not finish.`,
      advice: "`stoker admin restores` shows the report.",
    },
  ];
}

const minute = (at: Date): string => `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;
