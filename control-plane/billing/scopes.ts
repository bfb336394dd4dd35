// Budgets that a request is charged to: its account's funds, the monthly limits of account, key and project, its token's, and those of the
// provider that serves it. Pure.
import {
  type AccountId,
  accountBudget,
  type BudgetId,
  type DeploymentId,
  type KeyId,
  type ProjectId,
} from "../../proto/ids.ts";

/** Payer of a request, from a verified credential. */
export interface Payer {
  readonly account: AccountId;
  /** Empty for a browser session: then no key is charged. */
  readonly key: KeyId;
  readonly spending: {
    readonly hasAccountLimit: boolean;
    readonly hasKeyLimit: boolean;
    /** Project of its key. Absent: none. */
    readonly project?: ProjectId | undefined;
    readonly token: { readonly budget: BudgetId; readonly limit: bigint | null } | null;
  };
}

/** A budget, with the values of its row when there is none yet. Limits of months are read from the database. */
export interface BudgetScope {
  readonly budgetId: BudgetId;
  readonly kind: "account" | "account_month" | "key_month" | "project_month" | "jwt" | ProviderPeriod;
  /** Empty for a provider's. */
  readonly account: AccountId;
  readonly key: KeyId;
  /** Limit of a token, nano-USD; null: none. */
  readonly limit: bigint | null;
  /** The external server whose provider is paid. */
  readonly provider?: DeploymentId;
}

/** A UTC calendar month or day of what a provider is paid. */
export type ProviderPeriod = "provider_month" | "provider_day";

export interface ScopeSet {
  /** Equal for equal sets. */
  readonly name: string;
  /** The account's funds first. */
  readonly scopes: readonly BudgetScope[];
}

export const accountMonthBudget = (account: AccountId, unixMs: number): BudgetId =>
  `account-month/${account}/${monthOf(unixMs)}` as BudgetId;
export const keyMonthBudget = (key: KeyId, unixMs: number): BudgetId => `key/${key}/${monthOf(unixMs)}` as BudgetId;
export const projectMonthBudget = (project: ProjectId, unixMs: number): BudgetId =>
  `project/${project}/${monthOf(unixMs)}` as BudgetId;

export const providerMonthBudget = (provider: DeploymentId, unixMs: number): BudgetId =>
  `provider-month/${provider}/${monthOf(unixMs)}` as BudgetId;
export const providerDayBudget = (provider: DeploymentId, unixMs: number): BudgetId =>
  `provider-day/${provider}/${new Date(unixMs).toISOString().slice(0, 10).replaceAll("-", "")}` as BudgetId;

/** Month and day budgets that a request admitted at `admittedAtMs` counts in, also those without a limit. */
export function providerScopes(provider: DeploymentId, admittedAtMs: number): readonly [BudgetScope, BudgetScope] {
  const common = { account: "" as AccountId, key: "" as KeyId, limit: null, provider };
  return [
    { ...common, budgetId: providerMonthBudget(provider, admittedAtMs), kind: "provider_month" },
    { ...common, budgetId: providerDayBudget(provider, admittedAtMs), kind: "provider_day" },
  ];
}

/** A UTC month, YYYYMM. */
function monthOf(unixMs: number): string {
  const at = new Date(unixMs);
  return String(at.getUTCFullYear() * 100 + at.getUTCMonth() + 1);
}

/** Budgets that must cover a request admitted at `unixMs`. */
export function scopesOf(payer: Payer, unixMs: number): ScopeSet {
  const { spending } = payer;
  const scopes = [accountScope(payer)];
  if (spending.hasAccountLimit) scopes.push(accountMonthScope(payer, unixMs));
  if (spending.hasKeyLimit && payer.key !== "") scopes.push(keyMonthScope(payer, unixMs));
  // Also without a limit: only what was leased of it is counted.
  if (spending.project !== undefined) scopes.push(projectMonthScope(payer, spending.project, unixMs));
  if (spending.token) {
    const { budget, limit } = spending.token;
    scopes.push({ budgetId: budget, kind: "jwt", account: payer.account, key: payer.key, limit });
  }
  return { name: scopes.map((scope) => scope.budgetId).join(), scopes };
}

type Owner = Pick<Payer, "account" | "key">;

/** Budgets that count every charge, also without a limit, so that a limit set during a month includes the month's usage. */
export function monthScopes(owner: Owner, admittedAtMs: number): BudgetScope[] {
  const months = [accountMonthScope(owner, admittedAtMs)];
  if (owner.key !== "") months.push(keyMonthScope(owner, admittedAtMs));
  return months;
}

const accountScope = ({ account, key }: Owner): BudgetScope => ({
  budgetId: accountBudget(account),
  kind: "account",
  account,
  key,
  limit: null,
});
const accountMonthScope = ({ account, key }: Owner, unixMs: number): BudgetScope => ({
  budgetId: accountMonthBudget(account, unixMs),
  kind: "account_month",
  account,
  key,
  limit: null,
});
const keyMonthScope = ({ account, key }: Owner, unixMs: number): BudgetScope => ({
  budgetId: keyMonthBudget(key, unixMs),
  kind: "key_month",
  account,
  key,
  limit: null,
});
const projectMonthScope = ({ account, key }: Owner, project: ProjectId, unixMs: number): BudgetScope => ({
  budgetId: projectMonthBudget(project, unixMs),
  kind: "project_month",
  account,
  key,
  limit: null,
});
