// What agent instances need kept. Implemented by store/agent-instance-store.ts and store/backup-store.ts. Every method that a
// customer can reach takes the account; every write names what it saw.
import type { AccountId, DeploymentId, HostId, InstanceId, KeyId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { Deployment, DeploymentStatus } from "../deployments/deployment.ts";
import type { NewDeployment } from "../deployments/store.ts";

export interface AgentPlan {
  readonly id: string;
  readonly vcpu: number;
  readonly ramBytes: number;
  /** Nano-USD per hour of a running instance. */
  readonly hourRate: NanoUsd;
  readonly monthlyEgressGb: number;
}

export interface AgentType {
  readonly id: string;
  readonly prettyName: string;
  readonly version: string;
  readonly image: string;
  /** Where its program listens. */
  readonly port: number;
  /** Where its volume is mounted. */
  readonly volumePath: string;
  /** Where its dashboard listens; null: it has none. */
  readonly dashboardPort: number | null;
  readonly updateCommand: string | null;
  /** 0: only by hand. */
  readonly backupEveryMs: number;
  /** Of those made by schedule. */
  readonly keepBackups: number;
  readonly plans: readonly AgentPlan[];
}

export type Operation = "backup" | "restore" | "try_restore";

export interface AgentInstance {
  readonly deployment: Deployment;
  readonly type: string;
  readonly plan: string;
  readonly version: string;
  /** Of the version it runs. */
  readonly dashboardPort: number | null;
  readonly hourRate: NanoUsd;
  /** Created, or started the last time. */
  readonly startedAtMs: number;
  readonly wasStopped: boolean;
  /** What runs on its volume now. */
  readonly operation: Operation | null;
  readonly lastBackupAtMs: number | null;
  /** Why the last operation failed; empty: it did not. */
  readonly lastFault: string;
  /** Where its volume is; null before the first placement. */
  readonly host: HostId | null;
  /** Where people reach that host. */
  readonly address: string | null;
}

export interface NewAgentInstance {
  readonly deployment: NewDeployment;
  readonly type: AgentType;
  readonly plan: AgentPlan;
}

export type BackupState = "creating" | "ready" | "failed" | "deleting";

export interface Backup {
  readonly id: string;
  readonly instance: DeploymentId;
  readonly state: BackupState;
  readonly sizeBytes: number;
  readonly createdAtMs: number;
  readonly fault: string;
}

export interface Actor {
  readonly account: AccountId | "system";
  readonly ip: string;
}

export type Begun =
  | { readonly kind: "begun"; readonly backup: string }
  /** Another operation runs. */
  | { readonly kind: "busy" }
  | { readonly kind: "wrong_state"; readonly status: string }
  /** Never placed: there is nothing to save, and nowhere to restore to. */
  | { readonly kind: "no_volume" }
  /** Made by hand and kept. */
  | { readonly kind: "too_many"; readonly limit: bigint }
  | { readonly kind: "no_instance" }
  | { readonly kind: "no_backup" };

export interface AgentInstanceStore {
  /** `limit`: how many live ones the account may have. */
  insert(next: NewAgentInstance, limit: number): Promise<"made" | "name_taken" | "account_gone" | "too_many">;
  get(id: DeploymentId, account: AccountId): Promise<AgentInstance | undefined>;
  list(account: AccountId): Promise<readonly AgentInstance[]>;
  /** False when it moved since `ifRevision`. */
  rename(
    id: DeploymentId,
    account: AccountId,
    ifRevision: bigint,
    name: string,
  ): Promise<"renamed" | "moved" | "name_taken">;
  /** Notes when it was started; false when it moved since `ifRevision` or an operation runs. */
  setStatus(
    id: DeploymentId,
    account: AccountId,
    ifRevision: bigint,
    status: "initializing" | "stopping" | "deleted",
    ip?: string,
  ): Promise<boolean>;
  /** The image of `type` as it is now, at the next start of its container, which is at once. */
  update(id: DeploymentId, account: AccountId, ifRevision: bigint, type: AgentType): Promise<boolean>;
}

/** Who has a dashboard open. What browsers hold is kept as its hash. */
export interface DashboardStore {
  /** A launch token, audited; the instance's oldest visits beyond `most` end. False: it does not run, or the account is gone. */
  launch(
    visit: { readonly hash: Buffer; readonly id: DeploymentId; readonly account: AccountId; readonly forMs: number },
    most: number,
    by: Launcher,
  ): Promise<boolean>;
  /** The token's hash becomes that of a cookie, once. Undefined: unknown, used, too old, or its instance does not run. */
  enter(token: Buffer, cookie: Buffer, forMs: number): Promise<DeploymentId | undefined>;
  /** Undefined: unknown, ended, its key revoked, its owner signed out, its instance deleted, its account suspended or gone. */
  visit(cookie: Buffer): Promise<DashboardRow | undefined>;
  /** Those whose time is over. */
  sweep(): Promise<void>;
}

/** Who asks for a launch token: a visit ends with the key or the sign-in that it was asked for with. */
export interface Launcher {
  /** The client's address, for the audit log. */
  readonly ip: string;
  readonly key: KeyId | undefined;
  /** As the database knows a sign-in. */
  readonly login: Buffer | undefined;
}

export interface DashboardRow {
  readonly id: DeploymentId;
  readonly status: DeploymentStatus;
  /** Where it serves now, on a host whose data path is proven and whose certificate holds. */
  readonly at: { readonly instance: InstanceId; readonly host: HostId } | undefined;
}

export interface BackupStore {
  list(id: DeploymentId, account: AccountId): Promise<readonly Backup[]>;
  /** Writes down that it runs, and tells the host, together; audited. `backup`: new for a backup, an existing one else. */
  begin(
    operation: Operation,
    of: {
      readonly id: DeploymentId;
      readonly account: AccountId;
      readonly backup: string;
      readonly isScheduled: boolean;
    },
    by: Actor,
  ): Promise<Begun>;
  /** Has it go, audited; `busy` while an operation reads or makes it. Its host is asked by the next `retire`. */
  remove(
    of: { readonly id: DeploymentId; readonly account: AccountId; readonly backup: string },
    by: Actor,
  ): Promise<"removed" | "busy" | "no_instance" | "no_backup">;
  /** Takes over what hosts told of operations; how many ended. Repeating it changes nothing. */
  settle(): Promise<number>;
  /** Running ones whose last backup, or last try, is older than their type wants. */
  due(
    types: ReadonlyMap<string, AgentType>,
    nowMs: number,
  ): Promise<readonly { readonly id: DeploymentId; readonly account: AccountId }[]>;
  /** An instance that was deleted, and of which its host was not yet told to remove everything. */
  hasLeftOvers(): Promise<boolean>;
  /** Asks hosts to remove scheduled backups beyond those to be kept, and all of what was deleted with its volume; how many. */
  retire(types: ReadonlyMap<string, AgentType>, nowMs: number): Promise<number>;
}
