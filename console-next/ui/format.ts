export * from "../../console/format.ts";

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
