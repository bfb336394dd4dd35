// What a task was that is not billed by tokens alone: by the engine's header or usage, else by what its answer shows, else
// by what the gateway counted in the request. Pure.
import type { TokenRates, UnitCounts } from "../../proto/money.ts";
import { readUnits, type UsageSource } from "../../proto/usage.ts";
import { type EngineFigures, findUsage, noFigures, withCost } from "./find-usage.ts";
import type { WholeAnswer } from "./whole-answer.ts";

export interface UnitFigures {
  readonly figures: EngineFigures;
  readonly source: UsageSource;
}

/** Of an answer without JSON. `told`: the engine's header or trailer. */
export function unitFigures(told: UnitCounts | undefined, asked: UnitCounts): UnitFigures {
  if (told) return { figures: { ...noFigures, units: told }, source: "engine" };
  return { figures: { ...noFigures, units: asked }, source: isExact(asked) ? "counted" : "estimated" };
}

/** A complete answer. An engine's own usage gets its cost; whatever else it is leaves as it came. */
export function unitAnswer(
  body: Buffer,
  contentType: string,
  told: UnitCounts | undefined,
  asked: UnitCounts,
  rates: TokenRates,
): WholeAnswer {
  if (!contentType.startsWith("application/json")) return { body, ...unitFigures(told, asked) };
  const span = findUsage(body);
  const text = span ? body.toString("utf8", span.valueStart, span.valueEnd) : "null";
  const usage = readUnitUsage(text);
  const units = told ?? usage?.units;
  const seen = units ?? seenIn(body, asked);
  const figures: EngineFigures = { ...(usage?.tokens ?? noFigures), units: seen ?? asked };
  const source = units || (usage && !seen) ? "engine" : seen || isExact(asked) ? "counted" : "estimated";
  if (!span || !usage) return { body, figures, source };
  const parts = [
    body.subarray(0, span.valueStart),
    Buffer.from(withCost(text, figures, rates)),
    body.subarray(span.valueEnd),
  ];
  return { body: Buffer.concat(parts), figures, source };
}

/** The gateway has the text that is spoken and knows how many inputs there are; what audio or pictures take it can only bound. */
const isExact = (asked: UnitCounts) => asked.audioMs === 0 && asked.images === 0;

interface UnitUsage {
  readonly tokens: EngineFigures | undefined;
  readonly units: UnitCounts | undefined;
}

/** Our own fields, and `seconds` and `input_tokens`, as OpenAI-compatible engines say it of audio and images. */
function readUnitUsage(text: string): UnitUsage | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const usage = value as Record<string, unknown>;
  const input = count(usage["prompt_tokens"] ?? usage["input_tokens"]);
  const output = count(usage["completion_tokens"] ?? usage["output_tokens"]) ?? 0;
  const tokens = input === undefined ? undefined : { ...noFigures, input, output };
  const seconds = usage["seconds"];
  const units = readUnits(
    typeof seconds === "number" && seconds >= 0 ? { audio_ms: Math.ceil(seconds * 1000), ...usage } : usage,
  );
  return tokens || units ? { tokens, units } : undefined;
}

const count = (value: unknown) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;

/** What an answer shows of itself: pictures, or the length of what was heard. */
function seenIn(body: Buffer, asked: UnitCounts): UnitCounts | undefined {
  if (asked.images > 0) {
    // Never parsed: pictures are megabytes of text.
    const images = occurrences(body, '"b64_json"') || occurrences(body, "data:image/");
    if (images === 0) return undefined;
    return { ...asked, images, imagePixelSteps: Math.ceil((asked.imagePixelSteps * images) / asked.images) };
  }
  if (asked.audioMs === 0) return undefined;
  const text = body.toString("latin1");
  const ms = /"input_length_ms":\s*(\d{1,12})\b/.exec(text)?.[1];
  const seconds = /"duration":\s*(\d{1,9}(?:\.\d{1,9})?)/.exec(text)?.[1];
  const audioMs = ms === undefined ? seconds && Math.ceil(Number(seconds) * 1000) : Number(ms);
  return audioMs ? { ...asked, audioMs } : undefined;
}

function occurrences(body: Buffer, mark: string): number {
  let n = 0;
  for (let at = body.indexOf(mark); at >= 0; at = body.indexOf(mark, at + mark.length)) n += 1;
  return n;
}
