// Current incidents, most severe first.
import type { Responses } from "../proto/gen/responses.ts";
import { issuesOf, type Node } from "./fleet.ts";
import { usd } from "./format.ts";

export interface Incident {
  readonly problem: string;
  readonly advice: string;
  readonly page: string;
}

type Money = Pick<Responses["GET /v1/admin/money"], "imbalance_usd" | "loss_last_hour_usd" | "quarantined_records">;

type Restore = Responses["GET /v1/admin/restores"]["restores"][number];

/** An incomplete restore is shown for this long after it ended. */
const shownMs = 7 * 86_400_000;
const maxNames = 5;

/** Usage records older than this cannot be sent. */
const oldSpoolSeconds = 120;

export function incidentsOf(
  money: Money,
  nodes: readonly Node[],
  restores: readonly Restore[],
  nowMs: number,
): readonly Incident[] {
  const found: Incident[] = [];
  if (money.imbalance_usd !== 0)
    found.push({
      problem: `The ledger is out of balance by ${usd(money.imbalance_usd)}.`,
      advice: "This is a defect. Keep the logs and report it.",
      page: "/console/money",
    });
  if (money.quarantined_records > 0)
    found.push({
      problem: `${money.quarantined_records} usage records are in quarantine and not billed.`,
      advice:
        "A host sent usage that could not be verified. Release or discard it with `stoker admin quarantine`. Revoke the host if you do not trust it.",
      page: "/console/money",
    });
  found.push(...restores.flatMap((restore) => restoreIncidents(restore, nowMs)));
  for (const node of nodes) {
    const page = `/console/nodes/${node.node_id}`;
    const issues = issuesOf(node);
    if (issues.length > 0) found.push({ problem: `${node.name}: ${issues.join("; ")}.`, advice: adviceOf(node), page });
    const spool = node.usage_spool;
    if (spool && spool.oldest_age_seconds > oldSpoolSeconds)
      found.push({
        problem: `${node.name}: oldest unsent usage record is ${Math.round(spool.oldest_age_seconds)} s old.`,
        advice: "Check that the host reaches the control plane and its database. No usage is lost.",
        page,
      });
  }
  if (money.loss_last_hour_usd !== 0)
    found.push({
      problem: `${usd(money.loss_last_hour_usd)} of usage in the last hour was not charged.`,
      advice: "Records were late or duplicate, or exceeded a limit.",
      page: "/console/money",
    });
  return found;
}

function restoreIncidents({ began_at, ends_by, ended_at, awaited_hosts, report }: Restore, nowMs: number): Incident[] {
  const page = "/console/nodes";
  if (ended_at === null) {
    const names = awaited_hosts.slice(0, maxNames).map(({ name }) => name);
    const rest = awaited_hosts.length > maxNames ? ` and ${awaited_hosts.length - maxNames} more` : "";
    return [
      {
        problem: `The database was restored (noticed ${minute(began_at)}) and reconciliation is pending.`,
        advice: `Waiting for usage records of ${names.join(", ") || "no hosts"}${rest} until ${minute(ends_by)}. Start stopped agents. Report: stoker admin restores`,
        page,
      },
    ];
  }
  const isComplete = !report || (report.missing_node_ids.length === 0 && report.lost_records_at_most === 0);
  if (isComplete || nowMs - Date.parse(ended_at) > shownMs) return [];
  return [
    {
      problem: `The restored database may miss usage: at most ${report.lost_records_at_most} records were dropped by hosts, and ${report.missing_node_ids.length} hosts did not finish.`,
      advice: "Report: stoker admin restores",
      page,
    },
  ];
}

const minute = (at: string): string => `${at.slice(0, 16).replace("T", " ")} UTC`;

function adviceOf({ state }: Node): string {
  if (state === "unreachable")
    return "Check that the machine runs and reaches this server. Its models start on other hosts once it is considered lost. Agent instances and rented containers wait for it, because their data is on its disks.";
  return "See the host page. Cordon it to stop new placements, or drain it.";
}
