import type { Generated } from "kysely";
import type { DefaultTime, Time } from "./columns.ts";

export interface AgentInstancesTables {
  /** What a deployment of kind agent_instance is beside a deployment. */
  agent_instance: {
    deploy_id: string;
    account_id: string;
    agent_type: string;
    plan_id: string;
    version: string;
    image: string;
    port: number;
    volume_path: string;
    /** Where its dashboard listens; null: it has none. */
    dashboard_port: number | null;
    vcpu: number;
    ram_bytes: bigint;
    /** Nano-USD per hour when it was created; what is charged stands in the price book. */
    hour_rate: bigint;
    /** Created, or started the last time. */
    started_at: DefaultTime;
    was_stopped: Generated<boolean>;
    /** backup, restore or try_restore while it runs; then its backup, its command and since when. */
    operation: string | null;
    operation_backup: string | null;
    operation_command: string | null;
    operation_at: Time | null;
    last_backup_at: Time | null;
    /** Why the last operation failed; empty: it did not. */
    last_fault: Generated<string>;
    /** Of a deleted one: the command that removes its volume, and when the host had done so. */
    removal_command: string | null;
    volume_removed_at: Time | null;
  };
  /** A dashboard that is to be opened, or is open in one browser. */
  dashboard_visit: {
    /** SHA-256 of the launch token, then of the cookie that it was given for. */
    visit_hash: Buffer;
    deploy_id: string;
    account_id: string;
    /** The key it was asked for with, or the sign-in: it ends with that. */
    key_id: string | null;
    login: Buffer | null;
    /** The launch token was given for a cookie: it is of no use any more. */
    is_open: Generated<boolean>;
    created_at: DefaultTime;
    expires_at: Time;
  };
  instance_backup: {
    backup_id: string;
    deploy_id: string;
    account_id: string;
    is_scheduled: boolean;
    /** creating, ready, failed, deleting */
    state: string;
    /** In the blob store of the hosts. */
    blob_key: string;
    /** The command that makes it. */
    made_by_command: string | null;
    sha256: Generated<string>;
    size_bytes: Generated<bigint>;
    fault: Generated<string>;
    created_at: DefaultTime;
    finished_at: Time | null;
    /** The command that removes it from the store. */
    removal_command: string | null;
  };
}
