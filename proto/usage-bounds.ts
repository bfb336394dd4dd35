// Usage figures that a ticket allows. An engine or a host can report any number: the agent checks before it writes the record,
// the gateway before it frees held money, and the settlement before it bills.
import type { UnitCounts } from "./money.ts";
import type { Ticket } from "./ticket.ts";
import { type ReportedUsage, usageFieldList } from "./usage-record.ts";

/** Fields of a ticket that bound the usage of its request. */
export type UsageTerms = Pick<Ticket, "inputTokensBound" | "maxTokens" | "permits"> & {
  readonly units?: { readonly most?: UnitCounts } | undefined;
};

/**
 * Tokens that an engine may count above the bound of the prompt: chat templates, and images that the prompt only names by their
 * address. The hold still limits the price.
 */
export const extraInputTokens = 65_536;

/** Limits of a unit that the gateway has no bound for. Sums over millions of records stay within 64 bits. */
const maxUnboundedUnits = usageFieldList
  .filter((field) => field.in === "units")
  .map(({ name, max = 0 }) => [name as keyof UnitCounts, max] as const);

/**
 * Returns true if every figure is a whole number from 0 to what the ticket allows. Tokens of text: at most `permits * maxTokens` generated.
 * A ticket with units sets no limit on generated tokens, so they are limited as its prompt is.
 */
export function isAllowedUsage(
  usage: ReportedUsage,
  { inputTokensBound, maxTokens, permits, units }: UsageTerms,
): boolean {
  const maxInput = inputTokensBound + extraInputTokens;
  const maxOutput = units ? maxInput : permits * maxTokens;
  return (
    isCount(usage.input, maxInput) &&
    isCount(usage.cachedInput, usage.input) &&
    isCount(usage.output, maxOutput) &&
    isCount(usage.reasoning, maxOutput) &&
    (usage.units === undefined || areUnitsAllowed(usage.units, units?.most))
  );
}

function areUnitsAllowed(units: UnitCounts, most: UnitCounts | undefined): boolean {
  for (const [name, max] of maxUnboundedUnits) if (!isCount(units[name], most?.[name] || max)) return false;
  return true;
}

const isCount = (value: number, max: number): boolean => Number.isSafeInteger(value) && value >= 0 && value <= max;
