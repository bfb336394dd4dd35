// Table types for Kysely. bigint columns arrive as bigint (store/database.ts sets the parser); times are timestamptz.
// Money is nano-USD. Every table that a customer can see carries account_id.
import type { ColumnType, Generated } from "kysely";

type Time = ColumnType<Date, Date | string, Date | string>;
type DefaultTime = ColumnType<Date, Date | string | undefined, Date | string>;
type Json<T> = ColumnType<T, string, string>;

export interface Database {
  account: {
    account_id: string;
    email: string;
    display_name: string;
    is_admin: Generated<boolean>;
    suspend_reason: string | null;
    /** Data key of this account, wrapped by the KEK. */
    wrapped_dek: Buffer;
    kek_version: number;
    created_at: DefaultTime;
    deleted_at: Time | null;
  };
  api_key: {
    token_id: string;
    account_id: string;
    name: string;
    lookup: Buffer;
    ciphertext: Buffer;
    fragment: string;
    allowed_ips: string[] | null;
    created_at: DefaultTime;
    last_used_at: Time | null;
    revoked_at: Time | null;
  };
  budget: {
    budget_id: string;
    scope: "account" | "api_key" | "jwt";
    account_id: string;
    /** Null: no limit. For a prepaid account: the sum of its credits. */
    lim: bigint | null;
    spent: Generated<bigint>;
    leased: Generated<bigint>;
  };
  lease: {
    lease_id: string;
    budget_id: string;
    replica_id: string;
    replica_epoch: bigint;
    granted: bigint;
    settled: Generated<bigint>;
    expires_at: Time;
    closed_at: Time | null;
    /** idle, shutdown, dead */
    closed_why: string | null;
  };
  replica: { replica_id: string; epoch: bigint; started_at: DefaultTime; seen_at: DefaultTime };
  ledger_entry: {
    entry_id: Generated<bigint>;
    /** Entries of one transaction sum to 0. */
    transaction_id: string;
    /** customer_available, customer_spent, platform_revenue, platform_loss */
    book: string;
    account_id: string | null;
    amount: bigint;
    /** credit, capture, correction, loss */
    kind: string;
    request_id: string | null;
    attempt: number | null;
    /** Whose and what for: the usage page is summed from the ledger, so it always agrees with the invoice. */
    key_id: string | null;
    model: string | null;
    note: string | null;
    posted_at: DefaultTime;
  };
  usage: {
    request_id: string;
    attempt: number;
    admitted_at: Time;
    account_id: string;
    key_id: string;
    replica_id: string;
    model: string;
    deploy_id: string;
    instance_id: string;
    node_epoch: bigint;
    lease_ids: string[];
    hold: bigint;
    input_tokens: bigint;
    cached_input_tokens: bigint;
    output_tokens: bigint;
    reasoning_tokens: bigint;
    source: string;
    end_reason: string;
    price_version: bigint;
    input_rate: bigint;
    cached_input_rate: bigint;
    output_rate: bigint;
    /** What the tokens cost. */
    cost: bigint;
    /** What the customer pays: least(cost, hold); 0 when voided. */
    charge: bigint;
    /** A higher attempt exists: this one bills nothing. */
    voided: Generated<boolean>;
    queue_ms: number;
    first_byte_ms: number;
    total_ms: number;
    ended_at: Time;
    settled_at: DefaultTime;
  };
  /** The gateway's own count of what it delivered of an attempt whose upstream broke. */
  delivered_count: {
    request_id: string;
    attempt: number;
    account_id: string;
    output_tokens: bigint;
    lease_ids: string[];
    hold: bigint;
    at: DefaultTime;
  };
  /** The caller's own `x-request-id`, for look-ups only. */
  request_label: { request_id: string; label: string; account_id: string; at: DefaultTime };
  price: {
    price_version: Generated<bigint>;
    model_name: string;
    input_rate: bigint;
    cached_input_rate: bigint;
    output_rate: bigint;
    effective_from: DefaultTime;
  };
  /** Models offered to every account, served by a deployment of the operator. */
  public_model: {
    model_name: string;
    deploy_id: string;
    description: Generated<string>;
    created_at: DefaultTime;
  };
  deployment: {
    deploy_id: string;
    account_id: string;
    model_name: string;
    version: string;
    task: string;
    type: "legacy" | "llm" | "lora" | "tts";
    engine: "stoker" | "external";
    status: string;
    fail_reason: Generated<string>;
    gpu: string;
    num_gpus: number;
    max_batch_size: number;
    min_instances: number;
    max_instances: number;
    /** The wire's Weights without the token. */
    weights: Json<Record<string, unknown>>;
    /** Hub token under the account's data key; null without one. */
    weights_token: Buffer | null;
    extra_args: string[];
    external_url: string | null;
    context_length: number;
    memory_bytes: bigint;
    /** Why it waits: rejections per host. */
    pending_reasons: Json<readonly { host: string; why: string }[]>;
    /** Rises with every change of what runs. */
    generation: Generated<number>;
    revision: Generated<bigint>;
    lock_owner: string | null;
    lock_token: Generated<bigint>;
    lock_expires_at: Time | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
    deleted_at: Time | null;
  };
  instance: {
    instance_id: string;
    deploy_id: string;
    account_id: string;
    host_id: string;
    generation: number;
    /** Of the spec it last reported to run; 0 before its first report. */
    observed_generation: Generated<number>;
    gpu_uuids: string[];
    /** pending, downloading, creating, loading, ready, draining, stopped, failed */
    phase: string;
    fail_code: Generated<string>;
    fail_message: Generated<string>;
    bytes_done: Generated<bigint>;
    bytes_total: Generated<bigint>;
    restarts: Generated<number>;
    context_length: Generated<number>;
    identity: Generated<string>;
    /** Set when it must go; the host removes it and confirms, then the row goes. */
    tombstoned_at: Time | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
  };
  /** One row per GPU in use: unique (host_id, gpu_uuid), the last wall against a double allocation. */
  gpu_claim: { host_id: string; gpu_uuid: string; instance_id: string; account_id: string; memory_bytes: bigint };
  host: {
    host_id: string;
    hostname: string;
    advertise: string;
    inventory: Json<unknown>;
    node_epoch: bigint;
    /** Of its desired set: sent to the agent, rises with each change. */
    generation: Generated<bigint>;
    /** Moved by claims and inventory, never by heartbeats. */
    revision: Generated<bigint>;
    ticket_key: Buffer;
    schedulable: Generated<boolean>;
    condition: Generated<string>;
    agent_version: string;
    /** In its last report: leases with a request in flight or an unacknowledged record. */
    open_lease_ids: Generated<string[]>;
    reported_at: Time | null;
    seen_at: DefaultTime;
    created_at: DefaultTime;
  };
  /** Pushed facts: every replica reads past its last sequence each second; NOTIFY only wakes. */
  change: { seq: Generated<bigint>; topic: string; subject: string; at: DefaultTime };
}
