import type { DefaultTime, Json, OptionalJson, Time } from "./columns.ts";

export interface EnrolmentTables {
  /** The authority that signs hosts' certificates: one row. */
  node_authority: {
    name: string;
    /** X.509, DER. */
    certificate: Buffer;
    /** PKCS#8 under the key-encryption key. */
    sealed_key: Buffer;
    created_at: DefaultTime;
  };
  node_join_token: {
    token_id: string;
    /** SHA-256. */
    secret_hash: Buffer;
    pool: string;
    /** Brings this host back, also when it was revoked or lost its key; null: any new one. */
    for_host: string | null;
    created_by: string;
    created_at: DefaultTime;
    expires_at: Time;
    used_at: Time | null;
    used_by: string | null;
  };
  /** What a host's certificates may say. */
  node_identity: {
    host_id: string;
    /** SHA-256 of the public key that was enrolled last. */
    key_hash: Buffer;
    pool: string;
    /** Of the newest certificate. */
    serial: string;
    not_after: Time;
    enrolled_at: DefaultTime;
    revoked_at: Time | null;
  };
  /** What hosts are to do once and is not state: sent until an outcome is known, carried out once. */
  host_command: {
    command_id: string;
    host_id: string;
    /** Empty: the host itself. */
    instance_id: string;
    /** Of the deployment's specification; 0: whichever. */
    generation: bigint;
    kind: string;
    arguments: Json<unknown>;
    created_at: DefaultTime;
    deadline_at: Time;
    /** done, failed, interrupted, rejected_generation, expired, unknown_kind; null: not known yet. */
    outcome: string | null;
    error_code: string;
    error_message: string;
    result: OptionalJson<unknown>;
    finished_at: Time | null;
  };
}
