import type { Time } from "./columns.ts";

export interface IdempotencyTables {
  idempotency: {
    account_id: string;
    /** Method and path pattern. */
    route: string;
    key: string;
    /** Of everything the request says: the same key with another request is refused. */
    body_hash: Buffer;
    /** Who runs it: one that was overtaken cannot write its answer any more. */
    claim_id: string;
    /** A holder that died leaves a row that may be taken over after this. */
    locked_until: Time;
    /** Status, headers and body, sealed with the account's data key; null while the request runs. */
    answer: Buffer | null;
    expires_at: Time;
  };
}
