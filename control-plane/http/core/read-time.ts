import { badTime } from "../errors/errors.ts";

/** Unix seconds or ISO 8601, in unix ms. Throws badTime, which names the field and where it is. */
export function readTime(param: string, text: string, place: "body" | "query" = "body"): number {
  const ms = /^\d{1,11}$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  if (Number.isNaN(ms)) throw badTime(param, place);
  return ms;
}
