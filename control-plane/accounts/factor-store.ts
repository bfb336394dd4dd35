// Storage of sign-in and second factors. Throws as AccountStore does.
import type { AccountId } from "../../proto/ids.ts";
import type { Act, Actor } from "../act.ts";
import type { MailLink } from "../new-mail.ts";

/** How the owner of a session signed in. */
export type SessionFactor = "password" | "totp" | "passkey" | "recovery_code" | "link" | "oidc";

export type FactorKind = "totp" | "passkey";

/** Accounts that must have a second factor. */
export type RequiredFor = "none" | "operators" | "all";

/** A second factor as its owner sees it. */
export interface FactorRecord {
  readonly id: string;
  readonly kind: FactorKind;
  readonly name: string;
  readonly createdAtMs: number;
  readonly lastUsedAtMs: number | null;
}

export interface FactorOverview {
  readonly email: string;
  readonly displayName: string;
  readonly hasPassword: boolean;
  readonly factors: readonly FactorRecord[];
  readonly recoveryCodeCount: number;
  /** True when the operator requires one of this account. */
  readonly isRequired: boolean;
}

export interface StoredPasskey {
  readonly id: string;
  readonly account: AccountId;
  readonly credentialId: Buffer;
  /** COSE key. */
  readonly publicKey: Buffer;
  readonly transports: readonly string[];
  /** Signature counter; 0 where the authenticator keeps none. */
  readonly signCount: bigint;
}

export type NewFactor = { readonly id: string; readonly name: string } & (
  | { readonly kind: "totp"; readonly sealed: Buffer; readonly step: bigint }
  | ({ readonly kind: "passkey" } & Pick<StoredPasskey, "credentialId" | "publicKey" | "transports" | "signCount">)
);

/** `hasNewCodes`: the given recovery codes were stored, because the account had none. */
export type AddFactorOutcome = { readonly hasNewCodes: boolean } | "taken" | "full" | "gone";

/** `refused` and `expired` use up nothing. `expired`: the challenge was used or is too old. */
export type CodeUse = "used" | "refused" | "expired";

export interface FactorStore {
  /** Undefined when the account is gone. */
  overview(account: AccountId): Promise<FactorOverview | undefined>;
  totpOf(account: AccountId): Promise<{ readonly id: string; readonly sealed: Buffer } | undefined>;
  passkeysOf(account: AccountId): Promise<readonly StoredPasskey[]>;
  /** A passkey of a live account. */
  passkey(credentialId: Buffer): Promise<StoredPasskey | undefined>;
  /** Uses this step and `challenge` together. Refused when this step or a later one was used before. */
  useTotp(id: string, step: bigint, challenge: Buffer, atMs: number): Promise<CodeUse>;
  /** False when the passkey is gone, or was used since `seenCount` was read. */
  usePasskey(id: string, seenCount: bigint, newCount: bigint, atMs: number): Promise<boolean>;
  /** Deletes the code and `challenge` together, and audits the use. Refused when the code does not exist. */
  useRecoveryCode(actor: Actor, hash: Buffer, challenge: Buffer, atMs: number): Promise<CodeUse>;
  /**
   * Adds a factor, at most `maxFactors` per account. The first one ends every session but `session`, which then counts as
   * verified with it.
   */
  addFactor(
    actor: Actor,
    factor: NewFactor,
    extra: { readonly session: Buffer; readonly recoveryCodes: readonly Buffer[]; readonly maxFactors: number },
  ): Promise<AddFactorOutcome>;
  /** Audits the old and the new name. Undefined when there is no such factor. */
  renameFactor(actor: Actor, id: string, name: string): Promise<FactorRecord | undefined>;
  /** Removing the last one also removes the recovery codes. Undefined when the factor does not exist. */
  removeFactor(actor: Actor, id: string): Promise<FactorRecord | undefined>;
  /** Replaces all recovery codes. False when the account has no second factor. */
  setRecoveryCodes(actor: Actor, hashes: readonly Buffer[]): Promise<boolean>;
  /**
   * Removes all factors and recovery codes and ends all sessions; returns the count of factors. Undefined: no such account.
   */
  resetFactors(account: AccountId, act: Act): Promise<number | undefined>;
  /** Writes an audit row for a refused sign-in or for a new sign-in link. */
  noteSignIn(
    actor: Actor,
    action: "second_factor.refused" | "sign_in.limited" | "sign_in_link.create",
    what: string,
  ): Promise<void>;
  policy(): Promise<RequiredFor>;
  setPolicy(requiredFor: RequiredFor, act: Act): Promise<void>;
}

export type ChallengePurpose = "second_factor" | "passkey" | "link" | "enrol_totp" | "enrol_passkey" | MailLink;

export interface ChallengeRow {
  /** Null: a sign-in by passkey, before the account is known. */
  readonly account: AccountId | null;
  /** Session that started an enrolment. */
  readonly session: Buffer | null;
  /** Challenge that a passkey must sign, as base64url. */
  readonly challenge: string | null;
  /** New TOTP secret, sealed. */
  readonly sealed: Buffer | null;
  /** Address to which the ticket was mailed. */
  readonly email: string | null;
  /** Epoch in which the step before was proven; null: none was. */
  readonly epoch: number | null;
}

export interface ChallengeStore {
  putChallenge(lookup: Buffer, purpose: ChallengePurpose, row: ChallengeRow, expiresAtMs: number): Promise<void>;
  /** Returns an unexpired challenge. */
  challenge(
    lookup: Buffer,
    purposes: readonly ChallengePurpose[],
    nowMs: number,
  ): Promise<(ChallengeRow & { readonly purpose: ChallengePurpose }) | undefined>;
  /** Deletes it; false when it was used or has expired. */
  takeChallenge(lookup: Buffer, nowMs: number): Promise<boolean>;
}
