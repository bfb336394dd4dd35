import { BadTime } from "./errors.ts";

/** Unix seconds or ISO 8601, in unix ms. Throws BadTime, which names the field. */
export function readTime(param: string, text: string): number {
  const ms = /^\d{1,11}$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  if (Number.isNaN(ms)) throw new BadTime(param);
  return ms;
}
