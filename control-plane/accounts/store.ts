import type { AccountId, BudgetId, KeyId, MemberId, ProjectId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { SuspendReason } from "../../proto/suspend-reason.ts";
import type { Act, Actor } from "../act.ts";
import type { NewAccountMail } from "../new-mail.ts";
import type { CallerMember } from "./caller.ts";
import type { SessionFactor } from "./factor-store.ts";
import type { KeyRules } from "./key-rules.ts";

export type { ApplicationRecord, ApplicationStatus, ApplicationStore } from "./applications.ts";
export type { AuditFilter, AuditRecord, AuditStore } from "./audit.ts";
export type { AuditChainStore, AuditLink } from "./audit-chain.ts";
export type {
  ChallengePurpose,
  ChallengeStore,
  CodeUse,
  FactorKind,
  FactorStore,
  NewFactor,
  RequiredFor,
  SessionFactor,
} from "./factor-store.ts";
export type { KeyRole, KeyRules } from "./key-rules.ts";
export type { MemberRole } from "./member-role.ts";
export type {
  InvitationRecord,
  MemberRecord,
  MemberSource,
  MemberStore,
  memberLimits,
  OfferedInvitation,
  OrganizationRecord,
} from "./member-store.ts";
export type {
  AccountChange,
  AccountDetail,
  AdminAccountStore,
  SuspendOutcome,
  SuspensionRecord,
  SuspensionStore,
} from "./operator.ts";
export type { KeyManagers } from "./permissions.ts";
export type { ProjectLimit, ProjectOutcome, ProjectRecord, ProjectStore } from "./project-store.ts";
export type { KekStore } from "./rotate-kek.ts";

export interface NewAccount {
  readonly account: AccountId;
  readonly email: string;
  readonly displayName: string;
  readonly isAdmin: boolean;
  readonly wrappedDek: Buffer;
  readonly kekVersion: number;
  readonly credit: NanoUsd;
  /** Undefined: none, of an organisation. */
  readonly key: NewKey | undefined;
  /** The person who creates an organisation. */
  readonly owner?: { readonly member: MemberId; readonly person: AccountId } | undefined;
  /** Set when people create their own account: the e-mail address is not verified. */
  readonly passwordHash?: string | undefined;
  /** Set when an identity provider introduces the person. */
  readonly identity?: NewIdentity | undefined;
  readonly act: Act;
}

/** A person of an identity provider, whose account it manages. */
export interface NewIdentity {
  readonly id: string;
  readonly provider: string;
  /** Null: provisioned before the first sign-in. */
  readonly subject: string | null;
}

export interface NewKey {
  readonly key: KeyId;
  readonly name: string;
  readonly lookup: Buffer;
  readonly ciphertext: Buffer;
  readonly fragment: string;
}

export interface AccountRow {
  readonly account: AccountId;
  readonly email: string;
  readonly displayName: string;
  readonly isAdmin: boolean;
  readonly suspendReason: SuspendReason | null;
  /** Its requests may have the service tier `priority`. */
  readonly mayPrioritize: boolean;
  readonly createdAtMs: number;
}

export interface KeyRow extends KeyRules {
  readonly key: KeyId;
  readonly account: AccountRow;
  /** Member who created it; null: the account itself. */
  readonly member: CallerMember | null;
  readonly lookup: Buffer;
  /** Monthly limits (`POST /payment/config`, `POST /payment/key-limits`). */
  readonly hasAccountLimit: boolean;
  readonly hasKeyLimit: boolean;
  readonly projectId: ProjectId | null;
}

/** A live key with the data to open its secret. */
export interface SigningKeyRow extends KeyRow {
  readonly ciphertext: Buffer;
  readonly wrappedDek: Buffer;
}

/** A key as its owner sees it; the secret itself is sealed elsewhere. */
export interface KeyRecord extends KeyRules {
  readonly key: KeyId;
  readonly name: string;
  /** Last characters of the secret. */
  readonly fragment: string;
  /** Nano-USD per UTC month; null: none. */
  readonly monthlyLimit: bigint | null;
  readonly createdAtMs: number;
  readonly lastUsedAtMs: number | null;
  /** Whose it is in an organisation; null: the account's own. */
  readonly memberId: MemberId | null;
  readonly projectId: ProjectId | null;
}

/** Monthly limit of a key. */
export interface MonthlyLimit {
  /** Nano-USD per UTC month; null: none, 0: blocked. */
  readonly limit: bigint | null;
  /** Budget of the present month (billing/scopes.ts). */
  readonly month: BudgetId;
}

export interface SealedKey {
  readonly account: AccountId;
  readonly key: KeyId;
  readonly wrappedDek: Buffer;
  readonly ciphertext: Buffer;
  readonly lookup: Buffer;
}

/** Why an account cannot create an organisation: it was deleted, is one itself, or has too many. */
export type OwnerRefusal = "owner_gone" | "not_a_person" | "too_many_organizations";

/** Conflict of an insert. */
export type CreateOutcome =
  | OwnerRefusal
  | "created"
  | "id_taken"
  | "email_taken"
  | "name_taken"
  | "not_empty"
  | "kek_retired";

/** Every method throws DatabaseUnavailable. */
export interface AccountStore {
  hasAccounts(): Promise<boolean>;
  /**
   * One transaction: account, key, budget, credit in the ledger, audit, announcement. With `onlyFirst` it creates nothing
   * unless no account exists. `kek_retired`: a rotation retired the version that wraps its data key.
   */
  create(account: NewAccount, onlyFirst: boolean): Promise<CreateOutcome>;
  /** A live key of a live account. */
  findKey(lookup: Buffer): Promise<KeyRow | undefined>;
  /** A live key of this live account by its id. */
  findOwnKey(account: AccountId, key: KeyId): Promise<KeyRow | undefined>;
  /** A key of this account by its id or the digest of its secret, also a revoked one: its usage stays accessible. */
  findAnyOwnKey(
    account: AccountId,
    named: { readonly key: KeyId } | { readonly lookup: Buffer },
  ): Promise<KeyId | undefined>;
  /** The live key of this name, of a live account. */
  findSigningKey(account: AccountId, name: string): Promise<SigningKeyRow | undefined>;
  findAccount(account: AccountId): Promise<AccountRow | undefined>;
  /** Any live key, to check the secrets folder. */
  anySealedKey(): Promise<SealedKey | undefined>;
  /** The live key of this name of the oldest admin account. */
  firstAdminKey(name: string): Promise<SealedKey | undefined>;
  wrappedDek(account: AccountId): Promise<Buffer | undefined>;
  /** Versions of the key-encryption keys that data keys are wrapped by. */
  kekVersions(): Promise<readonly number[]>;
  keysUsed(lastUsed: ReadonlyMap<KeyId, Date>): Promise<void>;
}

export interface Profile {
  readonly email: string;
  readonly displayName: string;
  readonly name: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly country: string;
  readonly countryCode: string;
  readonly company: string;
  readonly website: string;
  readonly title: string;
  readonly useCase: string;
  readonly attribution: string;
  readonly marketingEmails: boolean;
  readonly isBusinessAccount: boolean;
}
export type ProfileChange = Partial<Profile>;

export interface ProfileRow extends AccountRow, Profile {
  readonly emailVerified: boolean;
  readonly isTeamAccount: boolean;
  readonly teamDisplayName: string | null;
}

/** `lastOwnerOf`: name of an organisation that would have no owner. */
export type EndRefusal = "gone" | "last_admin" | { readonly lastOwnerOf: string };

export type ProfileOutcome = "changed" | "gone" | "no_team" | "email_taken" | "name_taken";

export interface SshKey {
  readonly id: string;
  readonly name: string;
  /** One line, as in authorized_keys. */
  readonly key: string;
  readonly fingerprint: string;
  readonly createdAtMs: number;
}

/** Profile that an account's owner sets. Throws as AccountStore does. */
export interface ProfileStore {
  profile(account: AccountId): Promise<ProfileRow | undefined>;
  /** Announces the account. A changed e-mail address counts as unverified, unless an admin sets it; `notice` goes to a verified one that it replaces. */
  changeProfile(actor: Actor, change: ProfileChange, notice?: NewAccountMail): Promise<ProfileOutcome>;
  nameTeam(actor: Actor, name: string): Promise<ProfileOutcome>;
  /** Checks whether the account could be ended, ignoring its deployments. */
  mayEnd(account: AccountId): Promise<"yes" | EndRefusal>;
  /**
   * In one transaction: revokes its keys, ends sessions and logins, deletes the password, SSH keys and profile, frees
   * address and names, and announces the account. Changes nothing while it has deployments.
   */
  end(actor: Actor): Promise<"ended" | EndRefusal | "has_deployments">;
  sshKeys(account: AccountId): Promise<readonly SshKey[]>;
  /** False when the name is taken. */
  addSshKey(account: AccountId, key: SshKey, member: MemberId | null): Promise<boolean>;
  removeSshKey(account: AccountId, id: string): Promise<boolean>;
}

/** Whose key it is within its account. */
export interface KeyOwner {
  /** Null: the account itself. */
  readonly member: MemberId | null;
  /** Null: the first of the member's projects; none if it has none. */
  readonly project: ProjectId | null;
}

/** A member who may not manage keys chose a project that is none of the key's member. */
export interface OtherProjects {
  readonly allowed: readonly ProjectId[];
}

/** Every method throws DatabaseUnavailable; changes are audited and announced. */
export interface TokenStore {
  createKey(
    account: AccountId,
    key: NewKey,
    rules: KeyRules,
    budget: MonthlyLimit | undefined,
    act: Act,
    of: KeyOwner,
  ): Promise<KeyRecord | OtherProjects | "name_taken" | "account_gone" | "member_gone" | "project_gone">;
  /** Live keys, oldest first. */
  keys(account: AccountId): Promise<readonly KeyRecord[]>;
  /** A live key of this account. */
  keyRecord(account: AccountId, key: KeyId): Promise<KeyRecord | undefined>;
  /** Undefined when there is no such live key. */
  changeKey(
    account: AccountId,
    key: KeyId,
    change: Partial<KeyRules>,
    budget: MonthlyLimit | undefined,
    act: Act,
    /** Throws if these rules may not be changed so. */
    check?: (before: KeyRules) => void,
  ): Promise<KeyRecord | undefined>;
  /** Undefined when there is no such live key. */
  revokeKey(account: AccountId, key: KeyId, act: Act): Promise<KeyRecord | undefined>;
  /** A live key of this account with the data to open it. */
  findSealedKey(account: AccountId, key: KeyId): Promise<SigningKeyRow | undefined>;
  noteMint(
    mint: {
      readonly account: AccountId;
      readonly key: KeyId;
      readonly budget: BudgetId;
      readonly expiresAtS: number;
      readonly models: readonly string[] | null;
      readonly limit: bigint | null;
    },
    act: Act,
  ): Promise<void>;
  /** Nano-USD settled on a budget of this account; 0 before the first charge. */
  spentOf(account: AccountId, budget: BudgetId): Promise<NanoUsd>;
}

export interface SessionRow {
  readonly account: AccountRow;
  readonly beganAtMs: number;
  /** Time of the owner's proof; 0: unknown. */
  readonly authTimeMs: number;
  readonly seenAtMs: number;
  readonly endsAtMs: number;
  readonly factors: readonly SessionFactor[];
  /** The operator requires a second factor, and the account has none. */
  readonly mustEnrol: boolean;
}

/** A session as its owner sees it. */
export interface SessionRecord {
  /** Beginning of the stored hash of its cookie. */
  readonly id: string;
  readonly beganAtMs: number;
  /** About an hour late. */
  readonly seenAtMs: number;
  readonly endsAtMs: number;
  readonly factors: readonly SessionFactor[];
  /** Null: it began before they were stored. */
  readonly ip: string | null;
  readonly userAgent: string | null;
}

/** Passwords and browser sessions. Throws as AccountStore does. */
export interface SessionStore {
  /** Credentials by e-mail address, case-insensitive. */
  credentials(email: string): Promise<Credentials>;
  passwordOf(account: AccountId): Promise<string | undefined>;
  /** Names and epoch of a live account. */
  nameOf(account: AccountId): Promise<AccountNames | undefined>;
  /** True for a live operator's account. */
  isAdmin(account: AccountId): Promise<boolean>;
  /**
   * Ends the account's sessions, all but `keep`, and its unfinished sign-ins. Expired: the password changed since `epoch`, or the session
   * `keep` has ended.
   */
  setPassword(actor: Actor, change: PasswordWrite & { readonly epoch: number }): Promise<"set" | "gone" | "expired">;
  /**
   * Throws when the account is gone. Undefined: the session was verified by password only, and the account has since added a
   * second factor; or its password changed since `epoch`.
   */
  openSession(
    actor: Actor,
    session: {
      readonly lookup: Buffer;
      readonly beganAtMs: number;
      readonly authTimeMs: number;
      readonly endsAtMs: number;
      readonly factors: readonly SessionFactor[];
      /** Undefined: not proven by a password or a link. */
      readonly epoch: number | undefined;
      readonly userAgent: string | null;
    },
  ): Promise<Pick<SessionRow, "account" | "mustEnrol"> | undefined>;
  session(lookup: Buffer): Promise<SessionRow | undefined>;
  touchSession(lookup: Buffer, seenAtMs: number, endsAtMs: number): Promise<void>;
  /** Sessions of the account that have not ended at `nowMs`, the last used first. */
  sessionsOf(account: AccountId, nowMs: number): Promise<readonly SessionRecord[]>;
  /** Ends a session by the id of its record. False when the account has none of this id. */
  revokeSession(actor: Actor, id: string): Promise<boolean>;
  /** `ip`: of the person who ends it, for the audit log; undefined: another session replaces it. */
  endSession(lookup: Buffer, ip: string | undefined): Promise<void>;
}

export interface AccountNames {
  readonly email: string;
  readonly displayName: string;
  /** As in `Credentials`. */
  readonly canonical: string;
  readonly epoch: number;
}

export interface Credentials {
  /** The address as the database compares it: equal for all spellings of one account. */
  readonly canonical: string;
  /** A live account; without `hash` it has no password. */
  readonly found:
    | { readonly account: AccountId; readonly hash: string | undefined; readonly epoch: number }
    | undefined;
}

export interface PasswordWrite {
  readonly hash: string;
  /** The session that goes on. */
  readonly keep: Buffer | undefined;
  /** Mail to the owner, if the address is verified. */
  readonly notice: NewAccountMail | undefined;
}

/** Throws as AccountStore does. `lookup`: of a ticket that was mailed; `nowMs`: Unix ms. */
export interface AccountMailStore {
  /** False when the account is gone, or no mail with a link may go to its address: its domain has no dot. */
  queue(account: AccountId, mail: NewAccountMail): Promise<boolean>;
  /** Uses the ticket, and audits and announces the account. False when it cannot be used for the account's present address. */
  verifyEmail(lookup: Buffer, ip: string, nowMs: number): Promise<boolean>;
  /**
   * The same; also sets the password and ends all sessions. Of an account whose address nobody had verified yet it revokes the keys and
   * second factors too: whoever signed up may be somebody else.
   */
  resetPassword(
    lookup: Buffer,
    change: Omit<PasswordWrite, "keep"> & { readonly ip: string },
    nowMs: number,
  ): Promise<boolean>;
}

export interface AttemptStore {
  /** Adds one to the key's window, or starts a new window; returns the count. Only the key's digest is stored. */
  countAttempt(
    key: string,
    nowMs: number,
    windowMs: number,
  ): Promise<{ readonly taken: number; readonly endsAtMs: number }>;
  returnAttempts(key: string, count: number): Promise<void>;
  forgetAttempts(key: string): Promise<void>;
}

/** One attempt to run the request of an account's idempotency key. */
export interface IdempotencyClaim {
  readonly account: AccountId;
  /** Method and path pattern. */
  readonly route: string;
  readonly key: string;
  /** Random: distinguishes this attempt from one that took over. */
  readonly claim: string;
}

export type ClaimOutcome =
  | { readonly kind: "claimed" }
  | { readonly kind: "other_request" }
  | { readonly kind: "running"; readonly forMs: number }
  /** Its holder died, and no other attempt may take over. */
  | { readonly kind: "lost" }
  | { readonly kind: "answered"; readonly answer: Buffer };

/** Throws as AccountStore does. */
export interface IdempotencyStore {
  claim(
    request: IdempotencyClaim & {
      readonly bodyHash: Buffer;
      readonly lockMs: number;
      readonly keepMs: number;
      /** From a holder whose lock has expired. */
      readonly mayTakeOver: boolean;
    },
  ): Promise<ClaimOutcome>;
  /** Extends the holder's lock to `lockMs` from now. */
  renew(claim: IdempotencyClaim, lockMs: number): Promise<void>;
  /** No effect when another attempt took over. */
  finish(claim: IdempotencyClaim, answer: Buffer): Promise<void>;
  /** Removes the key's record. */
  abandon(claim: IdempotencyClaim): Promise<void>;
}

/** Keyed by the hash of the login id. Throws as AccountStore does. */
export interface CliLoginStore {
  hasCliLogin(lookup: Buffer): Promise<boolean>;
  /** Announces `cli_login` with the lookup hash in hex. Returns false when that login was answered before. */
  answerCliLogin(login: {
    readonly lookup: Buffer;
    readonly account: AccountId;
    readonly key: KeyId;
    readonly atMs: number;
    readonly expiresAtMs: number;
  }): Promise<boolean>;
  /** Returns the answer, once; `unknown`: not approved yet; `over`: taken or expired. */
  takeCliLogin(
    lookup: Buffer,
    nowMs: number,
  ): Promise<{ readonly account: AccountId; readonly key: KeyId } | "unknown" | "over">;
}
