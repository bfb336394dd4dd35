// Formats amounts, sizes and times.

/** Shows more digits for small amounts. */
export function usd(amount: number): string {
  const size = Math.abs(amount);
  const digits = size === 0 || size >= 1 ? 2 : size >= 0.01 ? 4 : 9;
  const text = size.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: digits });
  return `${amount < 0 ? "-" : ""}$${text}`;
}

export const usdOfCents = (cents: number): string => usd(cents / 100);

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = count;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit += 1) size /= 1024;
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}

export const count = (value: number): string =>
  value.toLocaleString(
    "en-US",
    Math.abs(value) < 0.01 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 3 },
  );

export const percent = (ratio: number | null | undefined): string =>
  ratio === null || ratio === undefined ? "–" : `${Math.round(ratio * 100)} %`;

const steps = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

/** `3 minutes ago`, `in 2 hours`, `now`. */
export function agoText(atMs: number, nowMs: number): string {
  const passed = nowMs - atMs;
  const step = steps.find(([, size]) => Math.abs(passed) >= size);
  if (!step) return "now";
  const [unit, size] = step;
  const number = Math.floor(Math.abs(passed) / size);
  const text = `${number} ${unit}${number === 1 ? "" : "s"}`;
  return passed > 0 ? `${text} ago` : `in ${text}`;
}

/** `2026-01-02 03:04:05 UTC` */
export const inUtc = (atMs: number): string => `${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** `850 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h` */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const two = (large: number, unit: string, small: number, smallUnit: string) =>
    small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`;
  const whole = Math.floor(seconds);
  if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return two(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return two(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
}
