// Tables of budgets, ledger, usage, prices, payments and GPU time.

import type { Generated } from "kysely";
import type {
  AccountId,
  BudgetId,
  DeploymentId,
  HostId,
  InstanceId,
  KeyId,
  LeaseId,
  ProjectId,
  RequestId,
} from "../../../proto/ids.ts";
import type { NanoUsd } from "../../../proto/money.ts";
import type { UsageField, usageFields } from "../../../proto/usage-record.ts";
import type { InvoiceBuyer, QuarantineProblem } from "../../billing/store.ts";
import type { DefaultTime, OptionalJson, Time } from "../core/columns.ts";

type Fields = typeof usageFields;

interface ColumnTypes {
  text: string;
  texts: string[];
  integer: number;
  count: bigint;
  duration: number;
  time: Time;
  amount: bigint;
  flag: boolean;
}

type ColumnOf<F extends UsageField> = ColumnTypes[F["type"]] | (F extends { readonly isNullable: true } ? null : never);

type CamelCase<Text extends string> = Text extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Text;

/** One column per field of the usage record; the ones that a record may lack have a default. */
type UsageColumns = {
  [N in keyof Fields as CamelCase<Fields[N]["column"]>]: Fields[N] extends { readonly isRequired: true }
    ? ColumnOf<Fields[N]>
    : Generated<ColumnOf<Fields[N]>>;
};

export interface MoneyTables {
  budget: {
    budgetId: BudgetId;
    /**
     * `account/<id>`, `account-month/<id>/<YYYYMM>`, `key/<token_id>/<YYYYMM>`, `project/<id>/<YYYYMM>`, `jwt/<sha256 of header.payload>`,
     * `provider-month/<deploy_id>/<YYYYMM>`, `provider-day/<deploy_id>/<YYYYMMDD>`
     */
    scope: "account" | "account_month" | "key_month" | "project_month" | "jwt" | "provider_month" | "provider_day";
    /** For a provider's budget: the owner of the external server. */
    accountId: AccountId;
    /** Null: no limit. For a prepaid account: the sum of its credits. */
    lim: bigint | null;
    spent: Generated<bigint>;
    leased: Generated<bigint>;
    /** Least that a request needed when this budget last refused one; null: the last requests fitted. */
    refusedFloor: Generated<bigint | null>;
  };
  lease: {
    leaseId: LeaseId;
    budgetId: BudgetId;
    replicaId: string;
    replicaEpoch: bigint;
    granted: bigint;
    settled: Generated<bigint>;
    expiresAt: Time;
    closedAt: Time | null;
    /** idle, shutdown, dead */
    closedWhy: string | null;
  };
  /** Rates paid to the provider of an external server, and the maximum per UTC month and day. */
  provider: {
    deployId: DeploymentId;
    inputRate: bigint;
    cachedInputRate: bigint;
    outputRate: bigint;
    /** Nano-USD per request. */
    requestRate: bigint;
    /** Null: no limit. */
    monthLimit: bigint | null;
    dayLimit: bigint | null;
  };
  replica: { replicaId: string; epoch: bigint; startedAt: DefaultTime; seenAt: DefaultTime };
  ledgerEntry: {
    entryId: Generated<bigint>;
    /** Entries of one transaction sum to 0. */
    transactionId: string;
    /** customer_available, customer_spent, platform_revenue, platform_loss */
    book: string;
    accountId: AccountId | null;
    amount: bigint;
    /** credit, topup, capture, correction, loss */
    kind: string;
    requestId: string | null;
    attempt: number | null;
    /** Whose and what for: the usage page is summed from the ledger, so it always agrees with the invoice. */
    keyId: string | null;
    model: string | null;
    /** Id of the priced record; null for credits. */
    priceVersion: bigint | null;
    discountId: string | null;
    note: string | null;
    postedAt: DefaultTime;
  };
  /** Money granted to an account, once per reference. */
  credit: {
    reference: string;
    accountId: AccountId;
    /** Nano-USD; negative takes back. */
    amount: bigint;
    /** credit, topup, correction */
    kind: string;
    note: string;
    grantedAt: DefaultTime;
  };
  usage: UsageColumns & { settledAt: DefaultTime };
  /**
   * Sums of ledger and usage by UTC day of posting, key, model, price and discount, written by the settlement that posts. Usage pages
   * and invoices read it; before a month is closed, it is compared with the ledger. The view `usage_month` sums it by month.
   */
  usageDay: {
    accountId: AccountId;
    /** year * 12 + month index. */
    month: number;
    /** Day of the month. 0: settled in the month before sums were by day, and not divided yet. */
    day: number;
    keyId: string;
    model: string;
    priceVersion: bigint;
    /** Empty: none. */
    discountId: string;
    deployId: string;
    /** Sum of usage without voided records; also for all units. */
    records: bigint;
    /** Records that are not metered minutes. */
    requests: bigint;
    /** Sum of customer_spent in the ledger. */
    entries: bigint;
    cost: bigint;
    /** Input and output. */
    tokens: bigint;
    outputTokens: bigint;
    gpuMs: bigint;
    characters: bigint;
    audioMs: bigint;
    images: bigint;
    /** Thousandths of the units that images are priced by. */
    imageMilli: bigint;
  };
  /** At most one row: records of months before it were removed. */
  usageRetention: { expiredBefore: Time; isOnly: Generated<boolean> };
  /** Months with rows of day 0 in usage_day. */
  usageUndivided: {
    accountId: AccountId;
    month: number;
    /** Last day of the month that has its sums. */
    through: Generated<number>;
  };
  /** Sums by UTC day of posting and scoped token with its own limit. */
  usageToken: {
    accountId: AccountId;
    day: Time;
    /** Id of its budget. */
    tokenBudget: string;
    /** Key that signed it. */
    keyId: string;
    requests: bigint;
    inputTokens: bigint;
    outputTokens: bigint;
    /** Nano-USD. */
    cost: bigint;
  };
  /** The gateway's own count of what it delivered of an attempt whose upstream broke. */
  deliveredCount: {
    requestId: RequestId;
    attempt: number;
    accountId: AccountId;
    outputTokens: bigint;
    leaseIds: LeaseId[];
    hold: NanoUsd;
    at: DefaultTime;
    hostId: string | null;
    /** Usage to bill if the host never reports again; amounts are decimal texts. Null: the gateway did not report it. */
    lost: OptionalJson<unknown>;
    /** The record is stored, or no longer awaited. */
    resolvedAt: Time | null;
  };
  /** Labels that the caller gave a request, for queries only. */
  requestLabel: {
    requestId: RequestId;
    /** `x-request-id`. */
    label: string | null;
    accountId: AccountId;
    /** `prompt_cache_key` of the body, header `x-service-source`. */
    cacheKey: string | null;
    source: string | null;
    at: DefaultTime;
  };
  /** Names of end users. An erased one leaves its sums without a name. */
  endUser: {
    accountId: AccountId;
    name: string;
    endUserId: Generated<string>;
    /** Last month with usage of it: year * 12 + month index. */
    month: number;
  };
  /** Number of end users that the usage of an account named in a month. */
  endUserMonth: { accountId: AccountId; month: number; users: number };
  /** Sums by UTC day of settlement. */
  usageEndUser: {
    accountId: AccountId;
    day: Time;
    /** Id of the end user; empty: more than the account may name in a month. */
    endUser: string;
    model: string;
    keyId: string;
    requests: bigint;
    inputTokens: bigint;
    outputTokens: bigint;
    /** Nano-USD. */
    cost: bigint;
  };
  /** Sums of usageEndUser by UTC month, except of months in endUserUnsummed. */
  usageEndUserMonth: {
    accountId: AccountId;
    /** Year * 12 + index of the month. */
    month: number;
    endUser: string;
    /** A bit for each day with usage, the lowest for the first. */
    days: number;
    requests: bigint;
    inputTokens: bigint;
    outputTokens: bigint;
    /** Nano-USD. */
    cost: bigint;
  };
  /** Months whose sums of end users are to be added (`sum_end_user_month`), from before these were stored. */
  endUserUnsummed: { accountId: AccountId; month: number };
  /** Requests that ended with an error before a host recorded them (billing/rejections.ts). */
  rejectedRequest: {
    requestId: string;
    accountId: AccountId;
    /** Empty: a browser session. */
    keyId: string;
    at: Time;
    /** As requested; empty: none. */
    model: string;
    route: string;
    status: number;
    code: string;
    label: string | null;
    /** Others of the same account, minute and code that are not stored. */
    others: Generated<number>;
  };
  /** Append only. Token, character, audio and image rates are nano-USD per million units (audio: per million milliseconds). */
  price: {
    priceVersion: Generated<bigint>;
    kind: "model" | "gpu" | "gpu_asleep" | "container";
    /** Public model name, GPU type or container plan. */
    subject: string;
    inputRate: Generated<bigint>;
    cachedInputRate: Generated<bigint>;
    outputRate: Generated<bigint>;
    characterRate: Generated<bigint>;
    audioRate: Generated<bigint>;
    imageRate: Generated<bigint>;
    /** Steps of an image of 1024 x 1024 at that rate: others cost in proportion. 0: every image costs the same. */
    imageSteps: Generated<number>;
    /** Nano-USD per GPU-hour or container-hour. */
    hourRate: Generated<bigint>;
    /** Prices of the tiers priority and flex, in per cent of the rates. */
    priorityPercent: Generated<number>;
    flexPercent: Generated<number>;
    effectiveFrom: DefaultTime;
    setAt: DefaultTime;
  };
  discount: {
    discountId: string;
    name: string;
    text: string;
    /** 1 to 10000: hundredths of a per cent off. */
    basisPoints: number;
    /** Null: every account, model, surface. */
    accountId: AccountId | null;
    model: string | null;
    surface: string | null;
    effectiveFrom: DefaultTime;
    effectiveTo: Time | null;
    createdAt: DefaultTime;
  };
  /** Usage records that cannot be billed without an operator, as their hosts sent them. */
  usageQuarantine: {
    quarantineId: Generated<bigint>;
    /** As the host names it. */
    requestId: string;
    attempt: number;
    /** Empty: quarantined before hosts were kept. */
    hostId: HostId;
    nodeEpoch: string;
    problem: QuarantineProblem;
    why: string;
    /** JSON. */
    record: string;
    at: DefaultTime;
    resolvedAt: Time | null;
    resolution: string | null;
  };
  /** Records of a host that were not kept, because it had the maximum in quarantine. */
  usageQuarantineHost: {
    hostId: HostId;
    dropped: bigint;
  };
  /** How an account pays. No row: prepaid, nothing on file, no top-up. */
  accountBilling: {
    accountId: AccountId;
    /** Nano-USD the account may owe: part of its budget's `lim`, beside its credits. 0: prepaid. */
    creditLine: Generated<bigint>;
    dueDays: Generated<number>;
    needsPaymentMethod: Generated<boolean>;
    hasPaymentMethod: Generated<boolean>;
    hasBillingAddress: Generated<boolean>;
    /** The provider's id of this customer. */
    customer: string | null;
    topupEnabled: Generated<boolean>;
    topupAmount: Generated<bigint>;
    topupThreshold: Generated<bigint>;
    topupFailed: Generated<boolean>;
    /** The last charge was declined. */
    cardFailed: Generated<boolean>;
    /** Time of the last update of the account's status. */
    checkedAt: Time | null;
    /** URL that receives alerts of limits, and its host and port; null: none. */
    alertUrl: string | null;
    alertHost: string | null;
    /** Lines that invoices print below the buyer's name. */
    invoiceAddress: Generated<string>;
    /** Alerts of limits are also mailed, where the operator set a mail server. */
    alertMail: Generated<boolean>;
  };
  /** Alerts that were raised. `percent` of `lim` was spent; a changed limit raises its own. */
  limitAlert: {
    budgetId: string;
    percent: number;
    lim: bigint;
    accountId: AccountId;
    keyId: KeyId | null;
    projectId: ProjectId | null;
    spent: bigint;
    webhookId: string | null;
    mailId: string | null;
    at: DefaultTime;
  };
  invoice: {
    invoiceId: string;
    accountId: AccountId;
    /** billing/period.ts: year * 12 + month index, UTC. */
    month: number;
    total: bigint;
    createdAt: DefaultTime;
    dueAt: Time;
    paidAt: Time | null;
    /** As it was when the month closed; null: closed by an earlier version. */
    buyer: OptionalJson<InvoiceBuyer>;
  };
  /** A closed month as it stood in the ledger: the usage pages of closed months read these. */
  invoiceLine: {
    lineId: Generated<bigint>;
    invoiceId: string;
    accountId: AccountId;
    keyId: string;
    model: string;
    task: string;
    isPrivate: boolean;
    pricingType: string;
    priceVersion: bigint | null;
    discountId: string | null;
    discountName: string;
    discountText: string;
    milliUnits: bigint;
    cost: bigint;
  };
  /** Months whose invoices are all made. */
  billingMonth: { month: number; closedAt: DefaultTime };
  /** Money asked of the provider or, under `manual`, of the operator. */
  charge: {
    /** Also the provider's idempotency key. */
    chargeId: string;
    accountId: AccountId;
    purpose: "topup" | "invoice";
    invoiceId: string | null;
    amount: bigint;
    /** `manual` or `stripe` */
    provider: string;
    state: "charging" | "requested" | "done" | "failed";
    /** A replica is asking the provider until then. */
    claimedUntil: Time | null;
    /** The provider's id of the payment, also of one that is pending. */
    reference: string | null;
    note: Generated<string>;
    /** FailureCause of a failed charge (billing/payment-store.ts); `replaced`: another amount was requested. */
    cause: Generated<string | null>;
    createdAt: DefaultTime;
    endedAt: Time | null;
  };
  /** Events of the provider that were taken in, by its id. */
  paymentEvent: { eventId: string; kind: string; at: DefaultTime };
  /** One row per instance that ever ran on GPUs. */
  gpuHold: {
    instanceId: InstanceId;
    deployId: string;
    accountId: AccountId;
    /** Only what this host meters is believed; null when the instance was gone before its first hold. */
    hostId: string | null;
    /** Share of each of its GPUs; 1: the whole GPU. */
    gpuShare: Generated<number>;
    /** Whole minutes of control-plane time that were promised in advance: minutes metered outside them are not billed. */
    covered: Generated<string>;
    /** End of the last minute whose record is in the ledger. */
    settledUntil: DefaultTime;
    /** Where the money of the covered minutes that are not settled is reserved; null while none is needed. */
    leaseId: LeaseId | null;
    /** Since when it serves no more; null while it does. */
    endedAt: Time | null;
  };
  /** Keys that sign usage segments and statements (docs/adr/0023-usage-is-sealed-by-account-and-month.md). */
  invoiceKey: {
    version: number;
    /** Ed25519. */
    publicKey: Buffer;
    /** PKCS#8, sealed with the key-encryption key. */
    sealedKey: Buffer;
    /** By the version before; null: the first. */
    signature: Buffer | null;
    createdAt: Time;
  };
  /** SHA-256 of the records of a segment, then of its corrections. */
  usageDigests: {
    accountId: AccountId;
    month: number;
    segment: number;
    digests: Buffer;
  };
  /** Sealed usage of an account and month, in the order of settlement. */
  usageSegment: {
    accountId: AccountId;
    /** year * 12 + month index. */
    month: number;
    /** From 1. */
    segment: number;
    records: number;
    corrections: number;
    /** Nano-USD: captured by the records, and moved by the corrections. */
    charged: bigint;
    /** Last time of settlement and of posting. The segment begins after that of the one before. */
    throughAt: Time;
    hash: Buffer;
    keyVersion: number;
    signature: Buffer;
    sealedAt: DefaultTime;
  };
  /** Signed when a month was closed. */
  invoiceStatement: {
    accountId: AccountId;
    month: number;
    /** Null: nothing was to pay. */
    invoiceId: string | null;
    text: string;
    keyVersion: number;
    signature: Buffer;
    createdAt: DefaultTime;
  };
}
