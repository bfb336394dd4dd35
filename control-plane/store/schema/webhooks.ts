import type { Generated } from "kysely";
import type { DefaultTime, OptionalJson, Time } from "./columns.ts";

export interface WebhooksTables {
  webhook_secret: {
    account_id: string;
    /** With the account's data key. */
    sealed: Buffer;
    made_at: DefaultTime;
    /** The one before, which signs as well until then. */
    previous_sealed: Buffer | null;
    previous_until: Time | null;
  };
  webhook_job: {
    request_id: string;
    account_id: string;
    key_id: string;
    /** What a scoped token allows: models, budget, limit in nano-USD. Null: an API key. */
    token: OptionalJson<{
      readonly models: readonly string[] | null;
      readonly budget: string | null;
      readonly limit: string | null;
    }>;
    /** The caller's `x-request-id` and `x-service-source`. */
    label: string | null;
    source: string | null;
    /** As the caller wrote it, or `deploy_id:ID`. */
    model: string;
    /** JSON, files as data URIs; gone when the request has ended. */
    body: Buffer | null;
    url: string;
    /** Host and port of the URL: receivers are kept apart by it. */
    host: string;
    /** Scheme and host for links to us. */
    origin: string;
    /** queued, running, succeeded, failed */
    state: string;
    /** Runs begun: attempts of each run are numbered above those of the one before. */
    claims: Generated<number>;
    /** Runs that broke, or whose control plane died. */
    faults: Generated<number>;
    /** The run that may write its end. */
    claim_id: string | null;
    /** Its control plane counts as dead after this. */
    locked_until: Time | null;
    due_at: DefaultTime;
    created_at: DefaultTime;
    /** Not begun any more after this. */
    expires_at: Time;
    error_code: string | null;
    error_message: string | null;
    finished_at: Time | null;
  };
  /** The outbox: written in the transaction that ends the request. */
  webhook_delivery: {
    webhook_id: string;
    request_id: string;
    account_id: string;
    url: string;
    host: string;
    /** What is signed and sent, byte for byte, at every attempt; null when it was let go after its end. */
    body: Buffer | null;
    /** JSON of an answer that is too large for the call, which then holds a link to it. */
    results: Buffer | null;
    /** pending, delivered, exhausted */
    state: string;
    /** Ever made. */
    attempts: Generated<number>;
    /** Made of the schedule, which a replay begins anew. */
    tries: Generated<number>;
    due_at: DefaultTime;
    claim_id: string | null;
    locked_until: Time | null;
    last_status: number | null;
    last_outcome: string | null;
    created_at: DefaultTime;
    finished_at: Time | null;
  };
  webhook_attempt: {
    webhook_id: string;
    number: number;
    at: Time;
    ms: number;
    /** ok, 3xx, 4xx, 5xx, timeout, blocked, unreachable */
    outcome: string;
    status: number | null;
    /** Its first KiB, or why there was none. */
    answer: string;
  };
  /** Bytes of bodies and results of an account's calls; written by a trigger alone. */
  webhook_kept: {
    account_id: string;
    bytes: bigint;
  };
}
