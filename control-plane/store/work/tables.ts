// Tables of files, batches, voices and webhook calls.

import type { Generated } from "kysely";
import type { DefaultTime, Json, OptionalJson, Time } from "../core/columns.ts";

type OptionalTime = DefaultTime | null;

export interface WorkTables {
  file: {
    fileId: string;
    accountId: string;
    purpose: Generated<"batch" | "batch_output">;
    filename: Generated<string>;
    bytes: Generated<bigint>;
    /** Of the blob store. */
    blobKey: string;
    /** False while it is being written: nobody sees it, and at its expiry its blob is removed. */
    isReady: Generated<boolean>;
    createdAt: DefaultTime;
    expiresAt: Time;
    /** Deleted by its owner, or come to nothing: the blob goes with the next sweep, and the row with it. */
    removedAt: OptionalTime;
  };
  batch: {
    batchId: string;
    accountId: string;
    /** Its lines are this key's use. */
    keyId: string;
    endpoint: string;
    inputFileId: string;
    metadata: OptionalJson<Record<string, string>>;
    outputExpiresAfterMs: bigint;
    status: Generated<
      "validating" | "in_progress" | "finalizing" | "completed" | "failed" | "expired" | "cancelling" | "cancelled"
    >;
    /** As its lines name it, once they were read. */
    model: string | null;
    errors: OptionalJson<{ code: string; line: number | null; message: string; param: string | null }[]>;
    total: Generated<number>;
    completed: Generated<number>;
    failed: Generated<number>;
    inputTokens: Generated<bigint>;
    cachedTokens: Generated<bigint>;
    outputTokens: Generated<bigint>;
    reasoningTokens: Generated<bigint>;
    outputFileId: string | null;
    errorFileId: string | null;
    createdAt: DefaultTime;
    /** Lines that have not begun by then are not begun any more. */
    expiresAt: Time;
    inProgressAt: OptionalTime;
    finalizingAt: OptionalTime;
    completedAt: OptionalTime;
    failedAt: OptionalTime;
    expiredAt: OptionalTime;
    cancellingAt: OptionalTime;
    cancelledAt: OptionalTime;
    /** How often it was taken up, and the fence: what an earlier run writes changes nothing. */
    run: Generated<number>;
    /** Of these the last ones, one after the other, that added no result and were not given back. */
    barrenRuns: Generated<number>;
    /** Whoever runs it renews this; after it any control plane may take it up. */
    lockedUntil: DefaultTime;
  };
  /** Until the output files are written. The line is its key: none is reported twice. */
  batchResult: {
    batchId: string;
    line: number;
    /** For the error file. */
    isError: boolean;
    /** A line of the file, as JSON. */
    body: string;
  };
  voice: {
    voiceId: string;
    accountId: string;
    name: string;
    description: string;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
  };
  /** What the speaker was recorded with: measured again for a model that has not measured it yet. */
  voiceSample: {
    voiceId: string;
    accountId: string;
    /** 0, 1, ... as they were sent. */
    place: number;
    contentType: string;
    /** Under the account's data key. */
    sealed: Buffer;
  };
  voiceBlend: {
    voiceId: string;
    accountId: string;
    /** Public name of the model that measured the recordings. */
    model: string;
    /** What a speech request names there, such as `af_heart:0.7,am_adam:0.3`. */
    blend: string;
    /** What the model server measured. */
    measured: Json<Readonly<Record<string, unknown>>>;
    madeAt: DefaultTime;
  };
  webhookSecret: {
    accountId: string;
    /** With the account's data key. */
    sealed: Buffer;
    madeAt: DefaultTime;
    /** The one before, which signs as well until then. */
    previousSealed: Buffer | null;
    previousUntil: Time | null;
  };
  webhookJob: {
    requestId: string;
    accountId: string;
    keyId: string;
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
    claimId: string | null;
    /** Its control plane counts as dead after this. */
    lockedUntil: Time | null;
    dueAt: DefaultTime;
    createdAt: DefaultTime;
    /** Not begun any more after this. */
    expiresAt: Time;
    errorCode: string | null;
    errorMessage: string | null;
    finishedAt: Time | null;
  };
  /** The outbox: written in the transaction that ends the request. */
  webhookDelivery: {
    webhookId: string;
    requestId: string;
    accountId: string;
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
    dueAt: DefaultTime;
    claimId: string | null;
    lockedUntil: Time | null;
    lastStatus: number | null;
    lastOutcome: string | null;
    createdAt: DefaultTime;
    finishedAt: Time | null;
  };
  webhookAttempt: {
    webhookId: string;
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
  webhookKept: {
    accountId: string;
    bytes: bigint;
  };
}
