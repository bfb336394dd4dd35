import type { Generated } from "kysely";
import type { DefaultTime, Json, Time } from "./columns.ts";

export interface AccountsTables {
  account: {
    account_id: string;
    /** Unique whatever its case. A deleted account has its id here and in display_name: no name of ours holds a colon. */
    email: string;
    /** False once its owner gave another address: Stoker sends no mail, so only an operator's word counts. */
    email_verified: Generated<boolean>;
    display_name: string;
    name: Generated<string>;
    first_name: Generated<string>;
    last_name: Generated<string>;
    country: Generated<string>;
    country_code: Generated<string>;
    company: Generated<string>;
    website: Generated<string>;
    title: Generated<string>;
    use_case: Generated<string>;
    attribution: Generated<string>;
    marketing_emails: Generated<boolean>;
    is_business_account: Generated<boolean>;
    is_team_account: Generated<boolean>;
    team_display_name: string | null;
    is_admin: Generated<boolean>;
    /** The gravest of account_suspension; null: none. Written with it, in the same transaction. */
    suspend_reason: string | null;
    /** Nano-USD per UTC month; null: none. */
    monthly_limit: bigint | null;
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
    /** Addresses and CIDR blocks the key may be used from; null: anywhere. */
    allowed_ips: string[] | null;
    /** Nano-USD per UTC month; null: none; 0 blocks. */
    monthly_limit: bigint | null;
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
  password: {
    account_id: string;
    /** Algorithm, parameters, salt and hash in one text (accounts/password.ts). */
    hash: string;
    changed_at: DefaultTime;
  };
  login_session: {
    /** Keyed hash of the cookie. */
    lookup: Buffer;
    account_id: string;
    created_at: Time;
    seen_at: Time;
    expires_at: Time;
  };
  /** Passwords tried in one window, by address, account and network. */
  sign_in_attempt: {
    /** Digest of what is counted. */
    key: Buffer;
    taken: number;
    expires_at: Time;
  };
  /** A browser's yes to a command line that waits for a key. */
  cli_login: {
    /** Keyed hash of the login id. */
    lookup: Buffer;
    account_id: string;
    token_id: string;
    created_at: Time;
    expires_at: Time;
    answered_at: Time | null;
  };
  ssh_key: {
    ssh_key_id: string;
    account_id: string;
    name: string;
    public_key: string;
    fingerprint: string;
    created_at: DefaultTime;
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
