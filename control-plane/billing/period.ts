// Billing periods: UTC months, written `YYYY.MM`. Pure.
import { type ErrorFacts, invalid } from "../service-error.ts";

export const badPeriod = (message: string, facts?: ErrorFacts) =>
  invalid("bad_period", message, { ...facts, in: "query" });

/** A UTC month: year * 12 + month index. */
export type Month = number;

export const monthOf = (unixMs: number): Month => {
  const at = new Date(unixMs);
  return at.getUTCFullYear() * 12 + at.getUTCMonth();
};

/** First millisecond of the month. */
export const monthStartMs = (month: Month): number => Date.UTC(Math.floor(month / 12), month % 12, 1);

export const monthName = (month: Month): string =>
  `${Math.floor(month / 12)}.${String((month % 12) + 1).padStart(2, "0")}`;

/** Maximum months in one response. */
const maxMonths = 36;
/** 9999.12: later years have more than four digits. */
const lastMonth = 9999 * 12 + 11;

/**
 * Returns the first and last month. `from` and `to` are `YYYY.MM`, `current`, `current-N`, `current(-N)` or unix seconds; without `to` the
 * period is the month of `from`. Throws badPeriod with the field.
 */
export function readPeriod(from: string, to: string | undefined, nowMs: number): { first: Month; last: Month } {
  const first = readMonth(from, "from", nowMs);
  const last = to === undefined ? first : readMonth(to, "to", nowMs);
  if (last < first) throw badPeriod("`to` must not be before `from`.", { param: "to" });
  if (last - first >= maxMonths) {
    throw badPeriod(`The period must be at most ${maxMonths} months.`, { param: "to" });
  }
  return { first, last };
}

function readMonth(text: string, param: string, nowMs: number): Month {
  const calendar = /^(\d{4})\.(\d{2})$/.exec(text);
  const relative = /^current(?:\(-(\d{1,4})\)|-(\d{1,4}))?$/.exec(text);
  let month: Month | undefined;
  if (calendar) {
    const index = Number(calendar[2]) - 1;
    if (index >= 0 && index < 12) month = Number(calendar[1]) * 12 + index;
  } else if (relative) month = monthOf(nowMs) - Number(relative[1] ?? relative[2] ?? 0);
  else if (/^\d{1,12}$/.test(text)) month = monthOf(Number(text) * 1000);
  if (month === undefined || month < 1970 * 12 || month > lastMonth) {
    throw badPeriod(`\`${param}\` must be YYYY.MM, current, current-N or unix seconds (UTC).`, {
      param,
    });
  }
  return month;
}
