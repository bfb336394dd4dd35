import type { Generated } from "kysely";
import type { DefaultTime, Time } from "./columns.ts";

export interface MoneyTables {
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
}
