import type { Generated } from "kysely";
import type { DefaultTime, Time } from "./columns.ts";

export interface PaymentTables {
  /** How an account pays. No row: prepaid, nothing on file, no top-up. */
  account_billing: {
    account_id: string;
    /** Nano-USD the account may owe: part of its budget's `lim`, beside its credits. 0: prepaid. */
    credit_line: Generated<bigint>;
    due_days: Generated<number>;
    needs_payment_method: Generated<boolean>;
    has_payment_method: Generated<boolean>;
    has_billing_address: Generated<boolean>;
    /** The provider's id of this customer. */
    customer: string | null;
    topup_enabled: Generated<boolean>;
    topup_amount: Generated<bigint>;
    topup_threshold: Generated<bigint>;
    topup_failed: Generated<boolean>;
    /** The last charge was declined. */
    card_failed: Generated<boolean>;
    /** When the account's standing was last judged. */
    checked_at: Time | null;
  };
  invoice: {
    invoice_id: string;
    account_id: string;
    /** billing/period.ts: year * 12 + month index, UTC. */
    month: number;
    total: bigint;
    created_at: DefaultTime;
    due_at: Time;
    paid_at: Time | null;
  };
  /** A closed month as it stood in the ledger: the usage pages of closed months read these. */
  invoice_line: {
    line_id: Generated<bigint>;
    invoice_id: string;
    account_id: string;
    key_id: string;
    model: string;
    task: string;
    is_private: boolean;
    pricing_type: string;
    price_version: bigint | null;
    discount_id: string | null;
    discount_name: string;
    discount_text: string;
    milli_units: bigint;
    cost: bigint;
  };
  /** Months whose invoices are all made. */
  billing_month: { month: number; closed_at: DefaultTime };
  /** Money asked of the provider or, under `manual`, of the operator. */
  charge: {
    /** Also the provider's idempotency key. */
    charge_id: string;
    account_id: string;
    purpose: "topup" | "invoice";
    invoice_id: string | null;
    amount: bigint;
    /** `manual` or `stripe` */
    provider: string;
    state: "charging" | "requested" | "done" | "failed";
    /** A replica is asking the provider until then. */
    claimed_until: Time | null;
    /** The provider's id of the payment, also of one that is pending. */
    reference: string | null;
    note: Generated<string>;
    /** Of a failed one: whose it was (billing/payment-store.ts); `replaced`: another amount was asked for. */
    cause: Generated<string | null>;
    created_at: DefaultTime;
    ended_at: Time | null;
  };
  /** Events of the provider that were taken in, by its id. */
  payment_event: { event_id: string; kind: string; at: DefaultTime };
}
