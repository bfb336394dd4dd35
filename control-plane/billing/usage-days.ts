// Usage of an account by UTC day and model, key, scoped token or end user. Money is the ledger's, as on the invoice.
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { badPeriod } from "./period.ts";

export const usageDimensions = ["model", "key", "token", "user"] as const;
export type UsageDimension = (typeof usageDimensions)[number];

export interface DayUse {
  /** Unix ms at which the day begins. */
  readonly dayMs: number;
  /** The model, the id of the key (empty: not a key's), the budget of the token, or the end user (empty: none). */
  readonly of: string;
  /** That signed the token; undefined for other dimensions. */
  readonly key: KeyId | undefined;
  /** The token's own limit, nano-USD. */
  readonly limit: bigint | null;
  /** Metered minutes of deployments are none. */
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Nano-USD. */
  readonly cost: bigint;
}

export interface UsageDayStore {
  /** In [fromMs, toMs) by time of posting, the dearest first, `most` of them. Throws ReportTooLong. */
  dayUse(
    account: AccountId,
    by: UsageDimension,
    fromMs: number,
    toMs: number,
    most: number,
  ): Promise<readonly DayUse[]>;
  /** Revoked ones too. */
  keysOf(account: AccountId): Promise<readonly { readonly key: KeyId; readonly name: string }[]>;
}

export interface UsageDay {
  /** `YYYY-MM-DD` */
  readonly day: string;
  readonly items: readonly (Omit<DayUse, "dayMs" | "key" | "cost"> & {
    /** The model; the name of the key, of the one that signed the token, or empty. */
    readonly name: string;
    readonly cost: NanoUsd;
  })[];
  readonly totalCost: NanoUsd;
}

export interface UsageDays {
  /** Every day of the period, also one without use. Throws badPeriod, ReportTooLong. */
  read(
    account: AccountId,
    by: UsageDimension,
    from: string | undefined,
    to: string | undefined,
  ): Promise<{ readonly days: readonly UsageDay[]; readonly isTruncated: boolean }>;
}

const dayMs = 86_400_000;
/** A busy account's ledger is read within the time of one statement. */
export const maxDays = 62;
const usualDays = 30;
/** A token each for a hundred thousand browsers is no answer to anybody. */
const maxItems = 5_000;

export function createUsageDays(deps: { readonly store: UsageDayStore; readonly unixMs?: () => number }): UsageDays {
  const unixMs = deps.unixMs ?? Date.now;
  return {
    async read(account, by, from, to) {
      const { firstMs, lastMs } = readDays(from, to, unixMs());
      // One after the other: a report holds one connection.
      const found = await deps.store.dayUse(account, by, firstMs, lastMs + dayMs, maxItems + 1);
      const keys = by === "model" || by === "user" ? [] : await deps.store.keysOf(account);
      const names = new Map(keys.map(({ key, name }) => [String(key), name]));
      const byDay = Map.groupBy(found.slice(0, maxItems), (use) => use.dayMs);
      const days: UsageDay[] = [];
      for (let ms = firstMs; ms <= lastMs; ms += dayMs) {
        const uses = byDay.get(ms) ?? [];
        days.push({
          day: dayOf(ms),
          items: uses.map(({ dayMs: _day, key, cost, ...use }) => ({
            ...use,
            name: by === "model" || by === "user" ? use.of : (names.get(key ?? use.of) ?? ""),
            cost: nano(cost),
          })),
          totalCost: nano(uses.reduce((sum, { cost }) => sum + cost, 0n)),
        });
      }
      return { days, isTruncated: found.length > maxItems };
    },
  };
}

/** UTC, YYYY-MM-DD. */
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** First and last day, each by its beginning. Throws badPeriod naming the field. */
export function readDays(
  from: string | undefined,
  to: string | undefined,
  nowMs: number,
  most = maxDays,
): { readonly firstMs: number; readonly lastMs: number } {
  const lastMs = to === undefined ? nowMs - (nowMs % dayMs) : readDay(to, "to");
  const firstMs = from === undefined ? lastMs - (usualDays - 1) * dayMs : readDay(from, "from");
  if (firstMs > lastMs)
    throw badPeriod("`from` lies after `to`. Give the first day of the period first.", { param: "from" });
  if (lastMs - firstMs >= most * dayMs)
    throw badPeriod(`The period is longer than ${most} days. Ask for a shorter one.`, { param: "from" });
  return { firstMs, lastMs };
}

function readDay(text: string, param: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  // 2026-02-30 is read as a day of March by some.
  if (Number.isNaN(ms) || dayOf(ms) !== text)
    throw badPeriod(`\`${param}\` is no day. Write it as YYYY-MM-DD (UTC).`, { param });
  return ms;
}
