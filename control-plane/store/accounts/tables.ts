// Tables of accounts, keys, sign-in, limits and the audit log.

import type { ColumnType, Generated } from "kysely";
import type { AccountId, KeyId, MemberId, ProjectId, RequestId } from "../../../proto/ids.ts";
import type { SuspendReason } from "../../../proto/suspend-reason.ts";
import type {
  ApplicationStatus,
  ChallengePurpose,
  FactorKind,
  KeyRole,
  MemberRole,
  MemberSource,
  RequiredFor,
  SessionFactor,
} from "../../accounts/store.ts";
import type { GpuCounts, LimitKind } from "../../quotas/store.ts";
import type { DefaultTime, Json, Time } from "../core/columns.ts";

export interface AccountTables {
  account: {
    accountId: AccountId;
    /** Unique, ignoring case. A deleted account has its id here and in display_name, which no other name can equal. */
    email: string;
    /** An operator set the address, or its owner opened a link that was mailed to it. */
    emailVerified: Generated<boolean>;
    /** Some address of the account was verified at some time. */
    wasVerified: Generated<boolean>;
    /** Rises with each change of the password. */
    signInEpoch: Generated<number>;
    displayName: string;
    name: Generated<string>;
    firstName: Generated<string>;
    lastName: Generated<string>;
    country: Generated<string>;
    countryCode: Generated<string>;
    company: Generated<string>;
    website: Generated<string>;
    title: Generated<string>;
    useCase: Generated<string>;
    attribution: Generated<string>;
    marketingEmails: Generated<boolean>;
    isBusinessAccount: Generated<boolean>;
    isTeamAccount: Generated<boolean>;
    teamDisplayName: string | null;
    isAdmin: Generated<boolean>;
    /** Its requests may have the service tier `priority`. */
    mayPrioritize: Generated<boolean>;
    /** The most severe reason in account_suspension; null: none. Written in the same transaction. */
    suspendReason: SuspendReason | null;
    /** Nano-USD per UTC month; null: none. */
    monthlyLimit: bigint | null;
    /** Data key of this account, wrapped by the KEK. */
    wrappedDek: Buffer;
    kekVersion: number;
    createdAt: DefaultTime;
    deletedAt: Time | null;
  };
  apiKey: {
    tokenId: KeyId;
    accountId: AccountId;
    name: string;
    lookup: Buffer;
    ciphertext: Buffer;
    fragment: string;
    /** Addresses and CIDR blocks the key may be used from; null: anywhere. */
    allowedIps: string[] | null;
    /** Nano-USD per UTC month; null: none; 0 blocks. */
    monthlyLimit: bigint | null;
    /** Exact names of models for inference; null: any. */
    allowedModels: string[] | null;
    /** Null: never. */
    expiresAt: Time | null;
    /** Null: no limit of its own. */
    requestsPerMinute: number | null;
    /** Input and output; null: no limit of its own. */
    tokensPerMinute: number | null;
    role: Generated<KeyRole>;
    /** The end user in `X-OpenWebUI-User-*` headers counts. */
    trustsUserHeaders: Generated<boolean>;
    createdAt: DefaultTime;
    lastUsedAt: Time | null;
    revokedAt: Time | null;
    /** Member who created it and whose role bounds it; the key is not valid without that member. Null: the account itself. */
    memberId: Generated<MemberId | null>;
    /** Never changes, so that the usage of a key belongs to one project. Null: none. */
    projectId: Generated<ProjectId | null>;
  };
  /** Groups API keys under one budget. */
  project: {
    projectId: ProjectId;
    accountId: AccountId;
    /** Unique among the account's projects that have not ended, ignoring case. */
    name: string;
    /** Nano-USD per UTC month; null: none. */
    monthlyLimit: bigint | null;
    createdAt: DefaultTime;
    /** Deleted; the row stays for reports. */
    endedAt: Time | null;
  };
  /** People and service accounts of an organisation. */
  member: {
    memberId: MemberId;
    /** The organisation. */
    accountId: AccountId;
    /** Null: a service account. */
    personId: AccountId | null;
    /** Name of a service account; empty for a person. */
    name: string;
    role: MemberRole;
    source: MemberSource;
    /** Projects to which the member's keys belong, the default first; empty: any, or none. */
    projectIds: Generated<ProjectId[]>;
    /** As the groups of their identity provider gave them last; a later choice of a person holds until the groups give others. */
    providedProjectIds: Generated<ProjectId[]>;
    createdAt: DefaultTime;
  };
  /** Links by which a person becomes a member, once. Their tickets are rows of sign_in_challenge. */
  invitation: {
    invitationId: string;
    accountId: AccountId;
    role: MemberRole;
    /** Only a person with this verified address may use it; at most one per address. Null: anyone with the link. */
    email: string | null;
    /** Those of the member, the default first. */
    projectIds: Generated<ProjectId[]>;
    /** Ends with this member. Null: the account itself. */
    createdBy: MemberId | null;
    createdAt: DefaultTime;
    expiresAt: Time;
  };
  /** Current reasons for which the account is suspended. */
  accountSuspension: {
    accountId: AccountId;
    reason: SuspendReason;
    since: DefaultTime;
    /** An account's id, or `system`. */
    suspendedBy: string;
    note: string;
  };
  /** Applications to the startup program; at most one pending per account. */
  programApplication: {
    applicationId: string;
    accountId: AccountId;
    company: string;
    ceo: string;
    funding: string;
    foundedOn: string;
    website: string;
    deal: string;
    status: Generated<ApplicationStatus>;
    createdAt: DefaultTime;
    decidedAt: Time | null;
    decidedBy: string | null;
    decisionNote: string | null;
  };
  password: {
    accountId: AccountId;
    /** Algorithm, parameters, salt and hash in one text (accounts/password.ts). */
    hash: string;
    changedAt: DefaultTime;
  };
  loginSession: {
    /** Keyed hash of the cookie. */
    lookup: Buffer;
    accountId: AccountId;
    createdAt: Time;
    seenAt: Time;
    expiresAt: Time;
    /** How its owner signed in. */
    factors: Generated<SessionFactor[]>;
    /** When its owner proved who they are; the epoch: a provider did not report it. Null: of a release that did not store it. */
    authTime: Generated<Date | null>;
    /** Address and browser that signed in; null: began before they were stored. */
    ip: Generated<string | null>;
    userAgent: Generated<string | null>;
  };
  /** Sign-in attempts in one window, by address, account and network. */
  signInAttempt: {
    /** Digest of the counted key. */
    key: Buffer;
    taken: number;
    expiresAt: Time;
  };
  /** A browser's approval of a command line's sign-in. */
  cliLogin: {
    /** Keyed hash of the login id. */
    lookup: Buffer;
    accountId: AccountId;
    tokenId: KeyId;
    createdAt: Time;
    expiresAt: Time;
    answeredAt: Time | null;
  };
  sshKey: {
    sshKeyId: string;
    accountId: AccountId;
    name: string;
    publicKey: string;
    fingerprint: string;
    createdAt: DefaultTime;
    /** Who added it in an organisation; it is deleted with that member. */
    memberId: Generated<MemberId | null>;
  };
  /** Append only: a trigger refuses everything but inserts. */
  audit: {
    auditId: Generated<bigint>;
    at: DefaultTime;
    actor: string;
    action: string;
    subject: string;
    accountId: ColumnType<AccountId | null, string | null, never>;
    ip: string;
    before: Json<unknown>;
    after: Json<unknown>;
    note: string;
  };
  /** Chain of hashes over `audit`. Append only. */
  auditLink: {
    seq: bigint;
    auditId: bigint;
    hash: Buffer;
    sealedAt: DefaultTime;
  };
  /** Last row of the chain that a receiver outside of the installation has. */
  auditDelivery: {
    receiver: string;
    seq: bigint;
    at: DefaultTime;
  };
  /** TOTP secrets and passkeys of accounts; at most one TOTP secret each. */
  secondFactor: {
    factorId: string;
    accountId: AccountId;
    kind: FactorKind;
    name: string;
    /** TOTP secret, sealed by the account's data key. */
    sealed: Buffer | null;
    credentialId: Buffer | null;
    /** COSE key of a passkey. */
    publicKey: Buffer | null;
    transports: Generated<string[]>;
    /** Last time step of a TOTP secret that was used, or the signature counter of a passkey. */
    counter: Generated<bigint>;
    createdAt: DefaultTime;
    lastUsedAt: Time | null;
  };
  /** Unused recovery codes; a used one is deleted. */
  recoveryCode: {
    accountId: AccountId;
    /** Keyed hash of the code. */
    hash: Buffer;
  };
  /** Unfinished steps of sign-in and enrolment; each is used once. */
  signInChallenge: {
    /** Keyed hash of the ticket. */
    lookup: Buffer;
    purpose: ChallengePurpose;
    /** Null: a sign-in by passkey, before the account is known. */
    accountId: AccountId | null;
    /** Session that started an enrolment. */
    session: Buffer | null;
    /** Challenge that a passkey must sign, as base64url. */
    challenge: string | null;
    /** New TOTP secret, sealed by the account's data key. */
    sealed: Buffer | null;
    /** Address to which the ticket was mailed. */
    email: Generated<string | null>;
    /** The account's `signInEpoch` when the step before was proven; null: none was. */
    epoch: Generated<number | null>;
    expiresAt: Time;
  };
  /** At most one row; without it no second factor is required. */
  signInPolicy: { onlyRow: Generated<boolean>; secondFactor: RequiredFor };
  /** Limits that an operator set for one account; null or a missing GPU type: the installation's default. */
  accountLimit: {
    accountId: AccountId;
    rateLimit: number | null;
    tpmRateLimit: bigint | null;
    weight: number | null;
    gpuMax: Json<GpuCounts>;
    gpuMin: Json<GpuCounts>;
    updatedAt: DefaultTime;
  };
  /** At most one open request (`decision` null) of a kind and account, by a partial unique index. */
  limitRequest: {
    requestId: string;
    accountId: AccountId;
    kind: LimitKind;
    reason: string;
    /** {max, min} by GPU type, or {rate_limit, tpm_rate_limit}. */
    requested: Json<unknown>;
    /** Incremented by every amendment, so that an operator decides on the version that was read. */
    revision: Generated<number>;
    decision: "approved" | "rejected" | "withdrawn" | null;
    resolvedBy: string | null;
    resolutionReason: string | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
    resolvedAt: Time | null;
  };
  idempotency: {
    accountId: AccountId;
    /** Method and path pattern. */
    route: string;
    key: string;
    /** Hash of the whole request: the same key with another request is refused. */
    bodyHash: Buffer;
    /** Attempt that runs it: one that was overtaken cannot write its response. */
    claimId: string;
    /** Another attempt may take over after this. */
    lockedUntil: Time;
    /** Status, headers and body, sealed with the account's data key; null while the request runs. */
    answer: Buffer | null;
    expiresAt: Time;
    /** Request id of a resumable stream. */
    streamId: RequestId | null;
    startedAt: Time | null;
    /** Processes that ran the stream, one after another. */
    runs: Generated<number>;
    /** Time at which a client was last seen that reads the stream from another control plane. */
    readAt: Time | null;
  };
  /** Events of resumable streams, in the order in which they were sent. */
  streamPiece: {
    streamId: RequestId;
    seq: number;
    /** Sealed with the account's data key. */
    data: Buffer;
  };
}
