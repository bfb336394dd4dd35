// Limits the figures that an engine reports to what the ticket of the request allows.
import type { Ticket, TicketUnits } from "../../proto/ticket.ts";
import { isAllowedUsage } from "../../proto/usage-bounds.ts";
import { type EngineFigures, invalidUsage } from "./find-usage.ts";

/**
 * Tokens above `max_tokens` that an engine may generate or report before it counts as ignoring the limit: some engines send an
 * end token or a tool call's head as tokens of their own. They are delivered, not billed.
 */
export const slackTokens = 16;

type Reported = EngineFigures | typeof invalidUsage | undefined;
type Terms = Pick<Ticket, "inputTokensBound" | "maxTokens" | "permits"> & { readonly units?: TicketUnits };

/** Generated tokens that are billed at most; without a limit for tasks that are not text. */
export const maxOutput = ({ permits, maxTokens, units }: Terms): number =>
  units ? Number.POSITIVE_INFINITY : permits * maxTokens;

/** The figures with at most the allowed output; `invalid` when they cannot be true. Undefined stays undefined. */
export function allowedFigures(figures: EngineFigures, terms: Terms): EngineFigures | typeof invalidUsage;
export function allowedFigures(figures: Reported, terms: Terms): Reported;
export function allowedFigures(figures: Reported, terms: Terms): Reported {
  if (figures === undefined || figures === invalidUsage) return figures;
  const most = maxOutput(terms);
  if (figures.output > most + slackTokens) return invalidUsage;
  const billed =
    figures.output > most ? { ...figures, output: most, reasoning: Math.min(figures.reasoning, most) } : figures;
  return isAllowedUsage(billed, terms) ? billed : invalidUsage;
}
