// Tables of files, batches, voices and webhook calls.

import type { Generated, GeneratedAlways } from "kysely";
import type { AccountId, BudgetId, KeyId, RequestId } from "../../../proto/ids.ts";
import type { VoiceId } from "../../assets/store.ts";
import type { Batch, BatchError, BatchId } from "../../batches/store.ts";
import type { FileId, FilePurpose } from "../../files/store.ts";
import type { MailLink } from "../../new-mail.ts";
import type { StoredStatus } from "../../responses/store.ts";
import type { DeliveryState } from "../../webhooks/store.ts";
import type { DefaultTime, Json, OptionalJson, Time } from "../core/columns.ts";

type OptionalTime = DefaultTime | null;

export interface WorkTables {
  file: {
    fileId: FileId;
    accountId: AccountId;
    purpose: Generated<FilePurpose>;
    filename: Generated<string>;
    bytes: Generated<bigint>;
    /** Key in the blob store. */
    blobKey: string;
    /** False during the upload: the file is hidden, and its blob is removed at its expiry. */
    isReady: Generated<boolean>;
    createdAt: DefaultTime;
    expiresAt: Time;
    /** Deleted or aborted: the next sweep removes blob and row. */
    removedAt: OptionalTime;
  };
  batch: {
    batchId: BatchId;
    accountId: AccountId;
    /** Key that is billed for its lines. */
    keyId: KeyId;
    endpoint: Batch["endpoint"];
    inputFileId: string;
    metadata: OptionalJson<Record<string, string>>;
    outputExpiresAfterMs: bigint;
    status: Generated<Batch["status"]>;
    /** Model named by its lines; null until they were read. */
    model: string | null;
    errors: OptionalJson<BatchError[]>;
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
    /** Lines that have not started by then are not started. */
    expiresAt: Time;
    inProgressAt: OptionalTime;
    finalizingAt: OptionalTime;
    completedAt: OptionalTime;
    failedAt: OptionalTime;
    expiredAt: OptionalTime;
    cancellingAt: OptionalTime;
    cancelledAt: OptionalTime;
    /** Number of claims, and the fence: writes of an earlier run have no effect. */
    run: Generated<number>;
    /** Consecutive last runs that added no result and were not released. */
    barrenRuns: Generated<number>;
    /** Renewed by its holder; after it any control plane may claim it. */
    lockedUntil: DefaultTime;
  };
  /** Results until the output files are written. The line is the key, so none is reported twice. */
  batchResult: {
    batchId: BatchId;
    line: number;
    /** True: belongs to the error file. */
    isError: boolean;
    /** A line of the file, as JSON. */
    body: string;
  };
  voice: {
    voiceId: VoiceId;
    accountId: AccountId;
    name: string;
    description: string;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
  };
  /** Recordings of the speaker, for models that have not measured them yet. */
  voiceSample: {
    voiceId: VoiceId;
    accountId: AccountId;
    /** 0, 1, ... in the order they were sent. */
    place: number;
    contentType: string;
    /** Sealed with the account's data key. */
    sealed: Buffer;
  };
  voiceBlend: {
    voiceId: VoiceId;
    accountId: AccountId;
    /** Public name of the model that measured the recordings. */
    model: string;
    /** Voice name for speech requests to that model, such as `af_heart:0.7,am_adam:0.3`. */
    blend: string;
    /** Measurement, as returned by the model server. */
    measured: Json<Readonly<Record<string, unknown>>>;
    madeAt: DefaultTime;
  };
  storedResponse: {
    responseId: string;
    accountId: AccountId;
    /** Key that is billed for a run in the background. */
    keyId: KeyId;
    /** Response that this one continues; it may be gone. */
    previousId: string | null;
    status: StoredStatus;
    background: boolean;
    /** Items and response, with the account's data key. */
    sealed: Buffer;
    bytes: GeneratedAlways<bigint>;
    createdAt: DefaultTime;
    finishedAt: OptionalTime;
    /** Number of runs: attempts of each run are numbered above those of the previous one. */
    claims: Generated<number>;
    /** Number of runs that failed or whose control plane died. */
    faults: Generated<number>;
    /** Run that may write its end. */
    claimId: string | null;
    /** After this its control plane is considered dead. */
    lockedUntil: Time | null;
    dueAt: DefaultTime;
    /** Not started after this. */
    expiresAt: Time;
  };
  webhookSecret: {
    accountId: AccountId;
    /** Sealed with the account's data key. */
    sealed: Buffer;
    madeAt: DefaultTime;
    /** Previous secret, which also signs until `previous_until`. */
    previousSealed: Buffer | null;
    previousUntil: Time | null;
  };
  webhookJob: {
    requestId: RequestId;
    accountId: AccountId;
    keyId: KeyId;
    /** Limits of a scoped token; `limit` in nano-USD. Null: an API key. */
    token: OptionalJson<{
      readonly models: readonly string[] | null;
      readonly budget: BudgetId | null;
      readonly limit: string | null;
    }>;
    /** The caller's `x-request-id` and `x-service-source`. */
    label: string | null;
    source: string | null;
    /** As sent by the caller, or `deploy_id:ID`. */
    model: string;
    /** `traceparent` of the request, if its trace is exported. */
    trace: string | null;
    /** JSON, files as data URIs; removed when the request has ended. */
    body: Buffer | null;
    url: string;
    /** Host and port of the URL: limits apply per receiver. */
    host: string;
    /** Scheme and host of this installation, for links. */
    origin: string;
    /** queued, running, succeeded, failed */
    state: string;
    /** Number of runs: attempts of each run are numbered above those of the previous one. */
    claims: Generated<number>;
    /** Number of runs that failed or whose control plane died. */
    faults: Generated<number>;
    /** Run that may write its end. */
    claimId: string | null;
    /** After this its control plane is considered dead. */
    lockedUntil: Time | null;
    dueAt: DefaultTime;
    createdAt: DefaultTime;
    /** Not started after this. */
    expiresAt: Time;
    errorCode: string | null;
    errorMessage: string | null;
    finishedAt: Time | null;
  };
  /** The outbox: written in the transaction that ends the request. */
  webhookDelivery: {
    webhookId: string;
    requestId: RequestId;
    /** `limit.alert`, whose row in webhook_job stands for no request; null: the result of a request. */
    event: string | null;
    accountId: AccountId;
    url: string;
    host: string;
    /** Signed and sent, byte for byte, at every attempt; null once it was discarded after its end. */
    body: Buffer | null;
    /** JSON of a response that is too large for the call, which then contains a link to it. */
    results: Buffer | null;
    state: DeliveryState;
    /** Total number of attempts. */
    attempts: Generated<number>;
    /** Attempts in the current schedule, which a replay restarts. */
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
    /** First KiB of the response, or why there was none. */
    answer: string;
  };
  /** Mails to accounts, as rows until the mail server accepted them. */
  mail: {
    mailId: string;
    accountId: AccountId;
    recipient: string;
    subject: string;
    body: string;
    /** The body has a placeholder for this link. */
    link: Generated<MailLink | null>;
    state: "pending" | "sent" | "failed";
    attempts: number;
    /** Error of the last attempt; empty: none, or it succeeded. */
    error: string;
    dueAt: DefaultTime;
    createdAt: DefaultTime;
    finishedAt: Time | null;
  };
  /** Bytes of bodies and results of an account's calls; written by a trigger only. */
  webhookKept: {
    accountId: AccountId;
    bytes: bigint;
  };
}
