// Spend of an account: by day, this month, and what the month will probably come to.
import type { Responses } from "../../proto/gen/responses.ts";

export type UsageDays = Responses["GET /v1/usage/days"]["days"];

const dayMs = 86_400_000;
/** Days whose mean continues to the end of the month. */
const paceDays = 7;
const shownDays = 30;

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
const monthStartMs = (nowMs: number): number => {
  const at = new Date(nowMs);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1);
};
const monthEndMs = (nowMs: number): number => {
  const at = new Date(nowMs);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1);
};

/** Query of the days that `spendOf` needs. UTC. */
export function daysQuery(nowMs: number): string {
  const firstMs = Math.min(nowMs - (shownDays - 1) * dayMs, monthStartMs(nowMs), nowMs - paceDays * dayMs);
  return `/v1/usage/days?by=model&from=${dayOf(firstMs)}`;
}

export interface Spend {
  /** Cents since the month began, UTC. */
  readonly month: number;
  /** Cents of the whole month if the pace of the last 7 days continues. Undefined: nothing was spent in them. */
  readonly projected: number | undefined;
  /** Unix seconds at which each shown day begins. */
  readonly times: readonly number[];
  /** USD of each shown day. */
  readonly usd: readonly number[];
}

export function spendOf(days: UsageDays, nowMs: number): Spend {
  const startMs = monthStartMs(nowMs);
  const cost = new Map(days.map((one) => [Date.parse(one.day), one.total_cost]));
  const sumSince = (fromMs: number) =>
    [...cost].reduce((sum, [ms, cents]) => (ms >= fromMs && ms <= nowMs ? sum + cents : sum), 0);
  const month = sumSince(startMs);
  const todayMs = nowMs - (nowMs % dayMs);
  const windowMs = todayMs - (paceDays - 1) * dayMs;
  // An account that began to spend yesterday has a pace of one or two days.
  const firstSpentMs = Math.min(...[...cost].filter(([ms, cents]) => ms >= windowMs && cents > 0).map(([ms]) => ms));
  const inWindow = sumSince(windowMs);
  const beganMs = [...cost].some(([ms, cents]) => ms < windowMs && cents > 0) ? windowMs : firstSpentMs;
  const pace = inWindow / Math.max(nowMs - beganMs, dayMs / 2);
  const shown = [...cost].filter(([ms]) => ms > todayMs - shownDays * dayMs).toSorted(([a], [b]) => a - b);
  return {
    month,
    projected: inWindow > 0 ? month + pace * (monthEndMs(nowMs) - nowMs) : undefined,
    times: shown.map(([ms]) => ms / 1000),
    usd: shown.map(([, cents]) => cents / 100),
  };
}
