// Days of filters, `YYYY-MM-DD` in UTC; empty: no limit.

/** ISO 8601. */
export const startOfDay = (day: string): string => (isDay(day) ? `${day}T00:00:00Z` : "");

/** Start of the next day, ISO 8601: the day itself is included. */
export const endOfDay = (day: string): string =>
  isDay(day) ? new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString() : "";

const isDay = (day: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(day) && !Number.isNaN(Date.parse(day));
