// Tables of accounts, keys, sign-in, limits and the audit log.

import type { Generated } from "kysely";
import type { DefaultTime, Json, Time } from "../core/columns.ts";

type GpuCounts = Readonly<Record<string, number>>;

export interface PeopleTables {
  account: {
    accountId: string;
    /** Unique whatever its case. A deleted account has its id here and in display_name: no name of ours holds a colon. */
    email: string;
    /** False once its owner gave another address: Stoker sends no mail, so only an operator's word counts. */
    emailVerified: Generated<boolean>;
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
    /** The gravest of account_suspension; null: none. Written with it, in the same transaction. */
    suspendReason: string | null;
    /** Nano-USD per UTC month; null: none. */
    monthlyLimit: bigint | null;
    /** Data key of this account, wrapped by the KEK. */
    wrappedDek: Buffer;
    kekVersion: number;
    createdAt: DefaultTime;
    deletedAt: Time | null;
  };
  apiKey: {
    tokenId: string;
    accountId: string;
    name: string;
    lookup: Buffer;
    ciphertext: Buffer;
    fragment: string;
    /** Addresses and CIDR blocks the key may be used from; null: anywhere. */
    allowedIps: string[] | null;
    /** Nano-USD per UTC month; null: none; 0 blocks. */
    monthlyLimit: bigint | null;
    createdAt: DefaultTime;
    lastUsedAt: Time | null;
    revokedAt: Time | null;
  };
  /** Each reason for which the account is suspended at present. */
  accountSuspension: {
    accountId: string;
    reason: string;
    since: DefaultTime;
    /** An account's id, or `system`. */
    suspendedBy: string;
    note: string;
  };
  /** Applications to the startup program; at most one pending per account. */
  programApplication: {
    applicationId: string;
    accountId: string;
    company: string;
    ceo: string;
    funding: string;
    foundedOn: string;
    website: string;
    deal: string;
    status: Generated<string>;
    createdAt: DefaultTime;
    decidedAt: Time | null;
    decidedBy: string | null;
    decisionNote: string | null;
  };
  password: {
    accountId: string;
    /** Algorithm, parameters, salt and hash in one text (accounts/password.ts). */
    hash: string;
    changedAt: DefaultTime;
  };
  loginSession: {
    /** Keyed hash of the cookie. */
    lookup: Buffer;
    accountId: string;
    createdAt: Time;
    seenAt: Time;
    expiresAt: Time;
    /** How its owner signed in: password, totp, passkey, recovery_code. */
    factors: Generated<string[]>;
  };
  /** Passwords tried in one window, by address, account and network. */
  signInAttempt: {
    /** Digest of what is counted. */
    key: Buffer;
    taken: number;
    expiresAt: Time;
  };
  /** A browser's yes to a command line that waits for a key. */
  cliLogin: {
    /** Keyed hash of the login id. */
    lookup: Buffer;
    accountId: string;
    tokenId: string;
    createdAt: Time;
    expiresAt: Time;
    answeredAt: Time | null;
  };
  sshKey: {
    sshKeyId: string;
    accountId: string;
    name: string;
    publicKey: string;
    fingerprint: string;
    createdAt: DefaultTime;
  };
  /** Append only: a trigger refuses everything but inserts. */
  audit: {
    auditId: Generated<bigint>;
    at: DefaultTime;
    actor: string;
    action: string;
    subject: string;
    accountId: string | null;
    ip: string;
    before: Json<unknown>;
    after: Json<unknown>;
    note: string;
  };
  /** TOTP secrets and passkeys of accounts; at most one TOTP secret each. */
  secondFactor: {
    factorId: string;
    accountId: string;
    kind: "totp" | "passkey";
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
    accountId: string;
    /** Keyed hash of the code. */
    hash: Buffer;
  };
  /** Steps of sign-in and enrolment that wait for their proof; each is used once. */
  signInChallenge: {
    /** Keyed hash of the ticket. */
    lookup: Buffer;
    purpose: string;
    /** Null: a sign-in by passkey, before the account is known. */
    accountId: string | null;
    /** Session that started an enrolment. */
    session: Buffer | null;
    /** What a passkey must sign, as base64url. */
    challenge: string | null;
    /** New TOTP secret, sealed by the account's data key. */
    sealed: Buffer | null;
    expiresAt: Time;
  };
  /** At most one row; without it no second factor is required. */
  signInPolicy: { onlyRow: Generated<boolean>; secondFactor: "none" | "operators" | "all" };
  /** What an operator set for one account; null, and a GPU type that is not named, stand for the installation's default. */
  accountLimit: {
    accountId: string;
    rateLimit: number | null;
    tpmRateLimit: bigint | null;
    gpuMax: Json<GpuCounts>;
    gpuMin: Json<GpuCounts>;
    updatedAt: DefaultTime;
  };
  /** At most one open request (`decision` null) of a kind and account, by a partial unique index. */
  limitRequest: {
    requestId: string;
    accountId: string;
    kind: "gpu" | "rate";
    reason: string;
    /** {max, min} by GPU type, or {rate_limit, tpm_rate_limit}. */
    requested: Json<unknown>;
    /** Rises with every amendment: what an operator decides on is what was read. */
    revision: Generated<number>;
    decision: "approved" | "rejected" | "withdrawn" | null;
    resolvedBy: string | null;
    resolutionReason: string | null;
    createdAt: DefaultTime;
    updatedAt: DefaultTime;
    resolvedAt: Time | null;
  };
  idempotency: {
    accountId: string;
    /** Method and path pattern. */
    route: string;
    key: string;
    /** Of everything the request says: the same key with another request is refused. */
    bodyHash: Buffer;
    /** Who runs it: one that was overtaken cannot write its answer any more. */
    claimId: string;
    /** A holder that died leaves a row that may be taken over after this. */
    lockedUntil: Time;
    /** Status, headers and body, sealed with the account's data key; null while the request runs. */
    answer: Buffer | null;
    expiresAt: Time;
  };
}
