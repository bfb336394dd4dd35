import type { AccountId, BudgetId, ProjectId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";

export interface ProjectRecord {
  readonly project: ProjectId;
  readonly name: string;
  /** Nano-USD per UTC month; null: none. */
  readonly monthlyLimit: bigint | null;
  /** Nano-USD settled in the present month. */
  readonly spent: bigint;
  /** Number of its keys that are not revoked. */
  readonly keyCount: number;
  readonly createdAtMs: number;
}

/** Monthly limit of a project, nano-USD; null: none. `month`: its budget of the present month. */
export interface ProjectLimit {
  readonly limit: bigint | null;
  readonly month: BudgetId;
}

export type ProjectOutcome = "done" | "gone" | "name_taken" | "too_many" | "has_keys";

/** Every method throws DatabaseUnavailable; changes are audited and announced. Projects that were deleted count as gone. */
export interface ProjectStore {
  /** Oldest first. `monthOf`: budget of the present month. */
  projects(account: AccountId, monthOf: (project: ProjectId) => BudgetId): Promise<readonly ProjectRecord[]>;
  /** `too_many`: the account has `maxCount`. */
  createProject(
    account: AccountId,
    project: { readonly id: ProjectId; readonly name: string },
    limit: ProjectLimit,
    maxCount: number,
    act: Act,
  ): Promise<ProjectOutcome>;
  changeProject(
    account: AccountId,
    id: ProjectId,
    change: { readonly name?: string; readonly limit?: ProjectLimit },
    act: Act,
  ): Promise<ProjectOutcome>;
  /** `has_keys`: a key of it is not revoked, or a member, an invitation, an identity provider or a workload identity has it. */
  endProject(account: AccountId, id: ProjectId, act: Act): Promise<ProjectOutcome>;
}
