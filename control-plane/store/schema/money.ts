import type { Generated } from "kysely";
import type { DefaultTime, OptionalJson, Time } from "./columns.ts";

export interface MoneyTables {
  budget: {
    budget_id: string;
    /** `account/<id>`, `account-month/<id>/<YYYYMM>`, `key/<token_id>/<YYYYMM>`, `jwt/<sha256 of header.payload>` */
    scope: "account" | "account_month" | "key_month" | "jwt";
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
    /** credit, topup, capture, correction, loss */
    kind: string;
    request_id: string | null;
    attempt: number | null;
    /** Whose and what for: the usage page is summed from the ledger, so it always agrees with the invoice. */
    key_id: string | null;
    model: string | null;
    /** Of the record that was priced; null for credits. */
    price_version: bigint | null;
    discount_id: string | null;
    note: string | null;
    posted_at: DefaultTime;
  };
  /** Money granted to an account, once per reference. */
  credit: {
    reference: string;
    account_id: string;
    /** Nano-USD; negative takes back. */
    amount: bigint;
    /** credit, topup, correction */
    kind: string;
    note: string;
    granted_at: DefaultTime;
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
    /** The budget of the JWT it was asked with: leases are forgotten long before usage. Null: of no token with a limit. */
    token_budget: Generated<string | null>;
    hold: bigint;
    input_tokens: bigint;
    cached_input_tokens: bigint;
    output_tokens: bigint;
    reasoning_tokens: bigint;
    characters: Generated<bigint>;
    audio_ms: Generated<bigint>;
    images: Generated<bigint>;
    /** Width x height x steps, summed over the images; 0: not known. */
    image_pixel_steps: Generated<bigint>;
    /** Inputs embedded, documents ranked, texts classified: not priced. */
    items: Generated<bigint>;
    gpu_ms: Generated<bigint>;
    source: string;
    end_reason: string;
    price_version: bigint;
    input_rate: bigint;
    cached_input_rate: bigint;
    output_rate: bigint;
    character_rate: Generated<bigint>;
    audio_rate: Generated<bigint>;
    image_rate: Generated<bigint>;
    /** Pixel steps of an image at that rate; 0: every image costs the same. */
    image_unit: Generated<bigint>;
    /** The discount that is inside the rates above. */
    discount_id: string | null;
    /** What the tokens and units cost. */
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
  /**
   * Sums of ledger and usage by month of posting (year * 12 + month index, UTC), key, model, price and discount, written by
   * the settlement that posts. Nothing is decided from it: usage pages read it, invoices read the ledger.
   */
  usage_month: {
    account_id: string;
    month: number;
    key_id: string;
    model: string;
    price_version: bigint;
    /** Empty: none. */
    discount_id: string;
    deploy_id: string;
    /** Of usage, voided ones not counted; so for all units. */
    records: bigint;
    /** Of customer_spent in the ledger. */
    entries: bigint;
    cost: bigint;
    tokens: bigint;
    gpu_ms: bigint;
    characters: bigint;
    audio_ms: bigint;
    images: bigint;
    /** Thousandths of the units that images are priced by. */
    image_milli: bigint;
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
    host_id: string | null;
    /** What is billed if the host never speaks again; amounts are decimal texts. Null: the gateway did not say. */
    lost: OptionalJson<unknown>;
    /** The record stands, or is waited for no longer. */
    resolved_at: Time | null;
  };
  /** What the caller said of a request, for look-ups only. */
  request_label: {
    request_id: string;
    /** `x-request-id`. */
    label: string | null;
    account_id: string;
    /** `user` and `prompt_cache_key` of the body, header `x-service-source`. */
    end_user: string | null;
    cache_key: string | null;
    source: string | null;
    at: DefaultTime;
  };
  /** Append only. Token, character, audio and image rates are nano-USD per million units (audio: per million milliseconds). */
  price: {
    price_version: Generated<bigint>;
    kind: "model" | "gpu" | "container";
    /** Public model name, GPU type or container plan. */
    subject: string;
    input_rate: Generated<bigint>;
    cached_input_rate: Generated<bigint>;
    output_rate: Generated<bigint>;
    character_rate: Generated<bigint>;
    audio_rate: Generated<bigint>;
    image_rate: Generated<bigint>;
    /** Steps of an image of 1024 x 1024 at that rate: others cost in proportion. 0: every image costs the same. */
    image_steps: Generated<number>;
    /** Nano-USD per GPU-hour or container-hour. */
    hour_rate: Generated<bigint>;
    effective_from: DefaultTime;
    set_at: DefaultTime;
  };
  discount: {
    discount_id: string;
    name: string;
    text: string;
    /** 1 to 10000: hundredths of a per cent off. */
    basis_points: number;
    /** Null: every account, model, surface. */
    account_id: string | null;
    model: string | null;
    surface: string | null;
    effective_from: DefaultTime;
    effective_to: Time | null;
    created_at: DefaultTime;
  };
  /** Usage records that could not be read or written, as they came. */
  usage_quarantine: {
    quarantine_id: Generated<bigint>;
    request_id: string;
    attempt: number;
    node_epoch: string;
    why: string;
    /** JSON. */
    record: string;
    at: DefaultTime;
  };
}
