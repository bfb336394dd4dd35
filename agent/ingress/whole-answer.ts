// A complete answer: its usage found, priced and put back in place.
import type { TokenRates } from "../../proto/money.ts";
import type { UsageSource } from "../../proto/usage.ts";
import {
  type EngineFigures,
  findUsage,
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

/** An engine that gives no usage is billed by an estimate, at most `bound`, and the answer says so in its usage. */
export function wholeAnswer(body: Buffer, rates: TokenRates, bound: { input: number; output: number }): WholeAnswer {
  const span = findUsage(body);
  const text = span ? body.toString("utf8", span.valueStart, span.valueEnd) : "null";
  const figures = readFigures(text);
  if (span && figures) {
    const parts = [
      body.subarray(0, span.valueStart),
      Buffer.from(withCost(text, figures, rates)),
      body.subarray(span.valueEnd),
    ];
    return { body: Buffer.concat(parts), figures, source: "engine" };
  }
  const estimated: EngineFigures = {
    input: bound.input,
    cachedInput: 0,
    output: Math.min(bound.output, Math.ceil(textLength(body) / 4)),
    reasoning: 0,
  };
  const bare = span ? withoutUsage(body, span) : body;
  const priced = withCost(usageText(estimated), estimated, rates);
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
