// Usage of an account by UTC day and model, key, project, scoped token or end user. Money is the ledger's, as on the invoice.
import type { AccountId, KeyId, ProjectId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { badPeriod } from "./period.ts";

export const usageDimensions = ["model", "key", "model_and_key", "project", "token", "user"] as const;
export type UsageDimension = (typeof usageDimensions)[number];

export interface DayUse {
  /** Unix ms at which the day begins. */
  readonly dayMs: number;
  /** Model (also by model and key), key id (empty: no key), project id (empty: none), budget of the token, or end user (empty: none). */
  readonly of: string;
  /** Key by model and key (empty: no key), or that signed the token; undefined for other dimensions. */
  readonly key: KeyId | "" | undefined;
  /** The token's own limit, nano-USD. */
  readonly limit: bigint | null;
  /** Metered minutes of deployments do not count. */
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Nano-USD. */
  readonly cost: bigint;
}

export interface UsageDayStore {
  /** Use of whole days in [fromMs, toMs) by time of posting, highest cost first, at most `max`. Throws ReportTooLong, usageNotReady. */
  dayUse(
    account: AccountId,
    by: UsageDimension,
    fromMs: number,
    toMs: number,
    max: number,
  ): Promise<{ readonly uses: readonly DayUse[]; readonly isTruncated: boolean }>;
  /**
   * Divides some sums that an earlier version stored by month, or adds some sums of end users, of any account; false: none are left.
   * Throws only if it did neither.
   */
  divideNext(): Promise<boolean>;
  /** Includes revoked keys. */
  keysOf(account: AccountId): Promise<readonly { readonly key: KeyId; readonly name: string }[]>;
  /** Includes deleted projects. */
  projectsOf(account: AccountId): Promise<readonly { readonly project: ProjectId; readonly name: string }[]>;
}

export interface UsageDay {
  /** `YYYY-MM-DD` */
  readonly day: string;
  readonly items: readonly (Omit<DayUse, "dayMs" | "cost"> & {
    /** Model, or name of the key, of the project or of the token's key; may be empty. */
    readonly name: string;
    /** Undefined: not by key. Empty: no key. */
    readonly keyName: string | undefined;
    readonly cost: NanoUsd;
  })[];
  readonly totalCost: NanoUsd;
}

export interface UsageDays {
  /** Returns every day of the period, also days without usage. Throws badPeriod, ReportTooLong, usageNotReady. */
  read(
    account: AccountId,
    by: UsageDimension,
    from: string | undefined,
    to: string | undefined,
  ): Promise<{ readonly days: readonly UsageDay[]; readonly isTruncated: boolean }>;
  /** Divides sums that an earlier version stored by month, for about 20 s or until none are left. Idempotent. */
  divide(signal: AbortSignal): Promise<void>;
}

const dayMs = 86_400_000;
/** Chosen so that a chart shows each day. */
export const maxDays = 62;
const usualDays = 30;
/** Other jobs wait for this one. */
const divideForMs = 20_000;
/** An account may have a hundred thousand tokens, but few pairs of a model and a key. */
const maxItems = {
  model: 5_000,
  key: 5_000,
  model_and_key: 20_000,
  project: 5_000,
  token: 5_000,
  user: 5_000,
} as const;

export function createUsageDays(deps: { readonly store: UsageDayStore; readonly unixMs?: () => number }): UsageDays {
  const unixMs = deps.unixMs ?? Date.now;
  return {
    async read(account, by, from, to) {
      const { firstMs, lastMs } = readDays(from, to, unixMs());
      // Sequential, because a report may hold only one connection.
      const { uses: found, isTruncated } = await deps.store.dayUse(account, by, firstMs, lastMs + dayMs, maxItems[by]);
      const names = await namesOf(deps.store, account, by);
      const nameOf = (id: string) => names.get(id) ?? "";
      const byDay = Map.groupBy(found, (use) => use.dayMs);
      const days: UsageDay[] = [];
      for (let ms = firstMs; ms <= lastMs; ms += dayMs) {
        const uses = byDay.get(ms) ?? [];
        days.push({
          day: dayOf(ms),
          items: uses.map(({ dayMs: _day, cost, ...use }) => {
            const key = by === "key" ? (use.of as KeyId | "") : use.key;
            const keyName = key === undefined ? undefined : nameOf(key);
            const isKey = by === "key" || by === "token";
            const name = isKey ? (keyName ?? "") : by === "project" ? nameOf(use.of) : use.of;
            return { ...use, key, keyName, name, cost: nano(cost) };
          }),
          totalCost: nano(uses.reduce((sum, { cost }) => sum + cost, 0n)),
        });
      }
      return { days, isTruncated };
    },
    async divide(signal) {
      const endMs = performance.now() + divideForMs;
      while (!signal.aborted && performance.now() < endMs && (await deps.store.divideNext()));
    },
  };
}

/** By id of the key or project. */
async function namesOf(store: UsageDayStore, account: AccountId, by: UsageDimension): Promise<Map<string, string>> {
  if (by === "model" || by === "user") return new Map();
  if (by === "project") return new Map((await store.projectsOf(account)).map(({ project, name }) => [project, name]));
  return new Map((await store.keysOf(account)).map(({ key, name }) => [key, name]));
}

/** UTC, YYYY-MM-DD. */
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** Returns the beginnings of the first and last day. Throws badPeriod with the field. */
export function readDays(
  from: string | undefined,
  to: string | undefined,
  nowMs: number,
  maxLength = maxDays,
): { readonly firstMs: number; readonly lastMs: number } {
  const lastMs = to === undefined ? nowMs - (nowMs % dayMs) : readDay(to, "to");
  const firstMs = from === undefined ? lastMs - (usualDays - 1) * dayMs : readDay(from, "from");
  if (firstMs > lastMs) throw badPeriod("`from` must not be after `to`.", { param: "from" });
  if (lastMs - firstMs >= maxLength * dayMs)
    throw badPeriod(`The period must be at most ${maxLength} days.`, { param: "from" });
  return { firstMs, lastMs };
}

function readDay(text: string, param: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  // Date.parse may read 2026-02-30 as a day of March.
  if (Number.isNaN(ms) || dayOf(ms) !== text) throw badPeriod(`\`${param}\` must be a UTC day, YYYY-MM-DD.`, { param });
  return ms;
}
