import { toUsd } from "../../../proto/money.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import { stateOf } from "../../agent-instances/agent-instances.ts";
import type { AgentInstance, AgentType, Backup } from "../../agent-instances/store.ts";

const gb = 1e9;
const gib = 1024 ** 3;
/** Renders an agent instance with every key of the interface. */
export function renderAgent(one: AgentInstance) {
  const { deployment } = one;
  const state = stateOf(one);
  const hasEnded = state === "stopped" || state === "failed" || state === "deleted";
  return {
    id: deployment.id,
    name: deployment.modelName,
    state,
    start_ts: unixSeconds(one.startedAtMs),
    state_ts: unixSeconds(deployment.updatedAtMs),
    stop_ts: hasEnded ? unixSeconds(deployment.updatedAtMs) : null,
    price_per_hour: Number(toUsd(one.hourRate)),
    region: "",
    last_backup_ts: unixSecondsOrNull(one.lastBackupAtMs),
    ssh_port: null,
    fail_reason: deployment.failReason || whyItWaits(one) || one.lastFault || null,
    public_ip: state === "running" ? one.address : null,
    version: one.version,
    agent_type: one.type,
    ssh_user: null,
    plan_id: one.plan,
    operation: one.operation,
  };
}

/** The volume is on one host: while that host has no capacity, the instance waits and its owner needs the reason. */
function whyItWaits({ deployment: { status, pendingReasons } }: AgentInstance): string {
  if (status !== "initializing" || pendingReasons.length === 0) return "";
  return `It waits for a host: ${pendingReasons.map(({ host, why }) => (host === "" ? why : `${host}: ${why}`)).join("; ")}.`;
}

export function renderAgentCatalog(types: readonly AgentType[]) {
  return Object.fromEntries(
    types.map((type) => [
      type.id,
      {
        pretty_name: type.prettyName,
        version: type.version,
        has_dashboard: type.dashboardPort !== null,
        self_service_update_command: type.updateCommand,
        plans: type.plans.map((plan) => ({
          id: plan.id,
          vcpu: plan.vcpu,
          ram_gb: plan.ramBytes / gib,
          price_per_hour: Number(toUsd(plan.hourRate)),
          monthly_egress_gb: plan.monthlyEgressGb,
        })),
      },
    ]),
  );
}

export function renderBackup(one: Backup) {
  return {
    snapshot_name: one.id,
    size_in_gb: one.sizeBytes / gb,
    state: one.state,
    created_at_unix: unixSeconds(one.createdAtMs),
    fail_reason: one.fault || null,
  };
}
