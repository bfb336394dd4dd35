// Prices as texts and as forms.
import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/operator-prices.ts";
import { count, usd } from "../ui/format.ts";

export type Price = Responses["GET /v1/admin/prices"]["prices"][number];
export type PriceKind = Price["kind"];
type Unit = keyof Price["rates"];

const modelUnits: readonly Unit[] = ["input", "cached_input", "output", "characters", "audio", "image", "image_steps"];

/** Units that something of this kind can be priced by. */
export const unitsOf = (kind: PriceKind): readonly Unit[] => (kind === "model" ? modelUnits : ["hour"]);

/** `$1.00 per million input tokens, $2.00 per million output tokens` */
export function ratesText(rates: Price["rates"]): string {
  const parts = (Object.keys(text.units) as Unit[]).flatMap((unit) => {
    const rate = rates[unit] ?? 0;
    if (rate === 0) return [];
    return unit === "image_steps" ? [text.steps(count(rate))] : [text.rate(usd(rate), text.units[unit])];
  });
  return parts.join(", ") || text.free;
}

/** Empty: all tiers cost the same. */
export const tiersText = ({ priority = 1, flex = 1 }: Price["tiers"]): string =>
  [
    ...(priority === 1 ? [] : [text.tier("priority", count(priority))]),
    ...(flex === 1 ? [] : [text.tier("flex", count(flex))]),
  ].join(", ");

/** Whether it is valid now, later or no longer. */
export function stateOf({ current, effective_from: from }: Price, nowMs: number): "current" | "future" | "past" {
  if (current) return "current";
  return Date.parse(from) > nowMs ? "future" : "past";
}

/** Rates of a form with one field per unit; without those left empty. */
export function ratesIn(fields: Readonly<Record<string, string>>, kind: PriceKind): Price["rates"] {
  const given = unitsOf(kind).flatMap((unit) => {
    const typed = fields[unit] ?? "";
    return typed === "" ? [] : [[unit, Number(typed)] as const];
  });
  return Object.fromEntries(given.length > 0 ? given : [[unitsOf(kind)[0] as Unit, 0] as const]);
}

/** ISO 8601 time of a date and time input in UTC; null: the input is empty. */
export const timeIn = (typed: string | undefined): string | null =>
  typed === undefined || typed === "" ? null : `${typed.length === 16 ? `${typed}:00` : typed}Z`;
