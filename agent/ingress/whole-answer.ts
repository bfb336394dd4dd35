// Validates and prices the usage of a complete answer.
import type { Ticket } from "../../proto/ticket.ts";
import type { UsageSource } from "../../proto/usage.ts";
import { allowedFigures, maxOutput } from "./allowed-usage.ts";
import {
  type EngineFigures,
  findUsage,
  invalidUsage,
  type Price,
  readFigures,
  usageText,
  withCost,
  withoutUsage,
  withUsage,
} from "./find-usage.ts";

export interface WholeAnswer {
  readonly body: Buffer;
  readonly figures: EngineFigures;
  readonly source: UsageSource;
}

type Terms = Pick<Ticket, "inputTokensBound" | "inputTokensEstimate" | "maxTokens" | "permits" | "units">;

/**
 * An engine without usage is billed by an estimate, which is added to the answer. Undefined for impossible usage.
 */
export function wholeAnswer(body: Buffer, price: Price, terms: Terms): WholeAnswer | undefined {
  const span = findUsage(body);
  const text = span ? body.toString("utf8", span.valueStart, span.valueEnd) : "null";
  const own = readFigures(text);
  const figures = allowedFigures(own, terms);
  if (figures === invalidUsage) return undefined;
  if (span && figures) {
    // Figures above the limit are shown as they are billed.
    const shown = figures === own ? text : usageText(figures);
    const parts = [
      body.subarray(0, span.valueStart),
      Buffer.from(withCost(shown, figures, price)),
      body.subarray(span.valueEnd),
    ];
    return { body: Buffer.concat(parts), figures, source: "engine" };
  }
  const estimated: EngineFigures = {
    input: terms.inputTokensEstimate,
    cachedInput: 0,
    output: Math.min(maxOutput(terms), Math.ceil(textLength(body) / 4)),
    reasoning: 0,
  };
  const bare = span ? withoutUsage(body, span) : body;
  const priced = withCost(usageText(estimated), estimated, price);
  return { body: withUsage(bare, priced), figures: estimated, source: "estimated" };
}

interface Choice {
  readonly text?: unknown;
  readonly message?: { readonly content?: unknown; readonly reasoning_content?: unknown };
}

function textLength(body: Buffer): number {
  try {
    const { choices } = JSON.parse(body.toString()) as { choices?: readonly Choice[] };
    const texts = (choices ?? []).flatMap((c) => [c.text, c.message?.content, c.message?.reasoning_content]);
    return texts.reduce<number>((sum, text) => sum + (typeof text === "string" ? Buffer.byteLength(text) : 0), 0);
  } catch {
    return 0;
  }
}
