import { badTime } from "../errors/errors.ts";

/** Returns unix ms of unix seconds or ISO 8601. Throws badTime, which names the field and its place. */
export function readTime(param: string, text: string, place: "body" | "query" = "body"): number {
  const ms = /^\d{1,11}$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  if (Number.isNaN(ms)) throw badTime(param, place);
  return ms;
}
