// Agent instances and their backups as the edge's ports, of one account.
import type { AgentInstances } from "../../control-plane/agent-instances/agent-instances.ts";
import type { AgentBackups } from "../../control-plane/agent-instances/backups.ts";
import { agentInstanceNotFound, backupNotFound } from "../../control-plane/agent-instances/errors.ts";
import type { AgentInstance, AgentType, Backup } from "../../control-plane/agent-instances/store.ts";
import type { Deployment } from "../../control-plane/deployments/deployment.ts";
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";

export const agentId = "agent-1" as DeploymentId;
export const backupId = "bk-1";

export const workspace: AgentType = {
  id: "workspace",
  prettyName: "Workspace",
  version: "1",
  image: "catalogue/workspace:1",
  port: 8000,
  volumePath: "/data",
  dashboardPort: null,
  updateCommand: null,
  backupEveryMs: 24 * 3_600_000,
  keepBackups: 2,
  plans: [{ id: "standard", vcpu: 1, ramBytes: 1024 ** 3, hourRate: nano(60_000_000n), monthlyEgressGb: 0 }],
};

const backup: Backup = {
  id: backupId,
  instance: agentId,
  state: "ready",
  sizeBytes: 12_000_000_000,
  createdAtMs: 1_786_000_000_000,
  fault: "",
};

/** `deployment`: of any kind; what differs is set here. */
export function fakeAgentInstances(account: AccountId, deployment: Deployment) {
  const one: AgentInstance = {
    deployment: {
      ...deployment,
      id: agentId,
      account,
      kind: "agent_instance",
      modelName: "my-agent",
      status: "deployed",
    },
    type: "workspace",
    plan: "standard",
    version: "1",
    dashboardPort: null,
    hourRate: nano(60_000_000n),
    startedAtMs: 1_786_000_000_000,
    wasStopped: false,
    operation: null,
    lastBackupAtMs: null,
    lastFault: "",
    host: "host-1" as HostId,
    address: "203.0.113.7",
  };
  const own = (owner: { readonly account: AccountId }, id: DeploymentId) =>
    owner.account === account && id === agentId ? Promise.resolve(one) : Promise.reject(agentInstanceNotFound());
  const done = async (owner: { readonly account: AccountId }, id: DeploymentId) => void (await own(owner, id));
  const agentInstances: AgentInstances = {
    catalog: () => [workspace],
    create: () => Promise.resolve(agentId),
    get: own,
    list: (owner) => Promise.resolve(owner.account === account ? [one] : []),
    rename: async (owner, id, name) => {
      const { deployment: of, ...rest } = await own(owner, id);
      return { ...rest, deployment: { ...of, modelName: name } };
    },
    stop: done,
    start: done,
    restart: done,
    update: done,
    remove: done,
    launchToken: async (owner, id) => `https://${(await own(owner, id)).deployment.id}.example/once`,
  };
  const ofBackup = async (owner: { readonly account: AccountId }, id: DeploymentId, name: string) => {
    await own(owner, id);
    if (name !== backupId) throw backupNotFound();
  };
  const agentBackups: Omit<AgentBackups, "settle" | "maintain" | "sweepDeleted"> = {
    list: async (owner, id) => {
      await own(owner, id);
      return [backup];
    },
    backup: async (owner, id) => {
      await own(owner, id);
      return backupId;
    },
    restore: ofBackup,
    tryRestore: ofBackup,
    remove: ofBackup,
  };
  return { agentInstances, agentBackups, dashboards: undefined };
}
