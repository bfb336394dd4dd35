// Storage of workload identities. Every method throws DatabaseUnavailable.
import type { AccountId, KeyId, MemberId, ProjectId } from "../../proto/ids.ts";
import type { KeyRole } from "../accounts/store.ts";
import type { Act } from "../act.ts";

export interface WorkloadRule {
  readonly name: string;
  /** URL, exactly as the token's claim `iss`. */
  readonly issuer: string;
  readonly audience: string;
  /** `*` stands for any characters. */
  readonly subject: string;
  /** Further claims and the values that they must have. */
  readonly claims: Readonly<Record<string, string>>;
  readonly role: KeyRole;
  /** Null: any. */
  readonly allowedModels: readonly string[] | null;
  readonly lifeSeconds: number;
  /** For whom its keys are, in an organisation. Null: the account itself. */
  readonly member: MemberId | null;
  /** Project of its keys. Null: the first of the member's, if there is one. */
  readonly project: ProjectId | null;
}

export interface WorkloadIdentity extends WorkloadRule {
  readonly id: string;
  readonly account: AccountId;
  readonly createdAtMs: number;
  readonly lastUsedAtMs: number | null;
}

export interface NewExchange {
  readonly id: string;
  readonly rule: string;
  readonly tokenHash: Buffer;
  readonly tokenExpiresAtMs: number;
  /** End of the key. */
  readonly expiresAtMs: number;
}

export interface WorkloadStore {
  /** Oldest first. */
  list(account: AccountId): Promise<readonly WorkloadIdentity[]>;
  get(account: AccountId, id: string): Promise<WorkloadIdentity | undefined>;
  /** Finds a rule of any live account. */
  find(id: string): Promise<WorkloadIdentity | undefined>;
  /** Audited. Ends with the member who acts. */
  create(
    account: AccountId,
    id: string,
    rule: WorkloadRule,
    max: number,
    act: Act,
  ): Promise<"done" | "full" | "name_taken" | "account_gone" | "project_gone">;
  /** Revokes the keys that it made. Audited and announced. */
  remove(account: AccountId, id: string, act: Act): Promise<WorkloadIdentity | undefined>;
  /** Reserves an exchange, and revokes the rule's expired keys. `replayed`: the token was exchanged too often. */
  begin(
    exchange: NewExchange,
    limits: { readonly live: number; readonly perToken: number },
    nowMs: number,
  ): Promise<"done" | "gone" | "full" | "replayed">;
  /** False: the rule was deleted in the meantime. */
  finish(exchange: string, key: KeyId): Promise<boolean>;
}
