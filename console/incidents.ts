// What somebody should look at now, gravest first, out of what the server tells an operator.
import { attentionOf, type Node } from "./fleet.ts";
import { usd } from "./format.ts";

export interface Incident {
  readonly what: string;
  /** Why it matters or what to do. */
  readonly advice: string;
  readonly page: string;
}

interface Money {
  readonly imbalance_usd: number;
  readonly loss_last_hour_usd: number;
}

/** More usage than this waits on a host only where it cannot be sent. */
const oldSpoolSeconds = 120;

export function incidentsOf(money: Money, nodes: readonly Node[]): readonly Incident[] {
  const found: Incident[] = [];
  if (money.imbalance_usd !== 0)
    found.push({
      what: `The ledger is out of balance by ${usd(money.imbalance_usd)}.`,
      advice: "It is a defect: keep the logs and report it.",
      page: "/console/money",
    });
  for (const node of nodes) {
    const page = `/console/nodes/${node.node_id}`;
    const reasons = attentionOf(node);
    if (reasons.length > 0) found.push({ what: `${node.name}: ${reasons.join("; ")}.`, advice: adviceOf(node), page });
    const spool = node.usage_spool;
    if (spool && spool.oldest_age_seconds > oldSpoolSeconds)
      found.push({
        what: `${node.name}: usage has waited ${Math.round(spool.oldest_age_seconds)} s to be recorded.`,
        advice: "Look whether the control plane and its database are reached; nothing is lost meanwhile.",
        page,
      });
  }
  if (money.loss_last_hour_usd !== 0)
    found.push({
      what: `${usd(money.loss_last_hour_usd)} of work could be charged to nobody in the last hour.`,
      advice: "Records came late or twice, or passed a limit.",
      page: "/console/money",
    });
  return found;
}

function adviceOf({ state }: Node): string {
  if (state === "unreachable")
    return "Look whether the machine runs and reaches this server. Models on it are started elsewhere by themselves once it counts as lost; agent instances and rented containers wait for it, because their data lies on its disks.";
  return "Its page says more; cordon it, so that nothing new is placed on it, or drain it.";
}
