import type { Generated } from "kysely";
import type { DefaultTime, Json, Time } from "./columns.ts";

export interface AccountsTables {
  account: {
    account_id: string;
    email: string;
    display_name: string;
    is_admin: Generated<boolean>;
    /** The gravest of account_suspension; null: none. Written with it, in the same transaction. */
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
  /** Each reason for which the account is suspended at present. */
  account_suspension: {
    account_id: string;
    reason: string;
    since: DefaultTime;
    /** An account's id, or `system`. */
    suspended_by: string;
    note: string;
  };
  /** Applications to the startup program; at most one pending per account. */
  program_application: {
    application_id: string;
    account_id: string;
    company: string;
    ceo: string;
    funding: string;
    founded_on: string;
    website: string;
    deal: string;
    status: Generated<string>;
    created_at: DefaultTime;
    decided_at: Time | null;
    decided_by: string | null;
    decision_note: string | null;
  };
  /** Append only: a trigger refuses everything but inserts. */
  audit: {
    audit_id: Generated<bigint>;
    at: DefaultTime;
    actor: string;
    action: string;
    subject: string;
    account_id: string | null;
    ip: string;
    before: Json<unknown>;
    after: Json<unknown>;
    note: string;
  };
  /** Pushed facts: every replica reads past its last sequence each second; NOTIFY only wakes. */
  change: { seq: Generated<bigint>; topic: string; subject: string; at: DefaultTime };
}
