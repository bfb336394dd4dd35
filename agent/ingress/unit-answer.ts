// Units of a task that is not billed by tokens only: from the engine's header or usage, otherwise from its answer, otherwise
// from the gateway's count. Pure.
import type { TokenRates, UnitCounts } from "../../proto/money.ts";
import type { Ticket, TicketUnits } from "../../proto/ticket.ts";
import { readUnits, type UsageSource, unitNames } from "../../proto/usage.ts";
import {
  allowedFigures,
  count,
  type EngineFigures,
  findUsage,
  invalidUsage,
  isSpace,
  noFigures,
  type Price,
  withCost,
} from "./find-usage.ts";
import type { WholeAnswer } from "./whole-answer.ts";

interface UnitFigures {
  readonly figures: EngineFigures;
  readonly source: UsageSource;
}

/** Figures of a unit-billed answer as its engine reports them; `invalid` for impossible counts. */
export type ReportedUnits = UnitCounts | typeof invalidUsage | undefined;

type UnitTicket = Ticket & { readonly units: NonNullable<Ticket["units"]> };

/** Returns the figures of a reply without JSON from the engine's header or trailer; undefined for impossible figures. */
export function unitFigures(reported: ReportedUnits, ticket: UnitTicket): UnitFigures | undefined {
  const { asked } = ticket.units;
  if (reported === undefined) {
    return { figures: { ...noFigures, units: asked }, source: isExact(asked) ? "counted" : "estimated" };
  }
  if (reported === invalidUsage) return undefined;
  const figures = allowedFigures({ ...noFigures, units: reported }, ticket);
  return figures === invalidUsage ? undefined : { figures, source: "engine" };
}

/**
 * Returns a complete answer. The cost is added to an engine's own usage, and pictures get the fields that they lack; all else
 * stays unchanged. Undefined for impossible figures.
 */
export function unitAnswer(
  body: Buffer,
  contentType: string,
  reported: ReportedUnits,
  ticket: UnitTicket,
  price: Price,
): WholeAnswer | undefined {
  if (!contentType.startsWith("application/json")) {
    const known = unitFigures(reported, ticket);
    return known && { body, ...known };
  }
  const { asked } = ticket.units;
  const span = findUsage(body);
  const text = span ? body.toString("utf8", span.valueStart, span.valueEnd) : "null";
  const usage = readUnitUsage(text);
  if (reported === invalidUsage || usage === invalidUsage) return undefined;
  const units = reported ?? usage?.units;
  const tokens = usage?.tokens ?? noFigures;
  const shown = units ? undefined : seenIn(body, asked);
  // Counts taken from the reply itself are a guess: use the gateway's count where the ticket does not allow them.
  const isGuessAllowed = shown && allowedFigures({ ...tokens, units: shown }, ticket) !== invalidUsage;
  const seen = units ?? (isGuessAllowed ? shown : undefined);
  const figures = allowedFigures({ ...tokens, units: seen ?? asked }, ticket);
  if (figures === invalidUsage) return undefined;
  const source = units || (usage && !seen) ? "engine" : seen || isExact(asked) ? "counted" : "estimated";
  const complete = asked.images > 0 ? withPictureFields : (part: Buffer) => part;
  if (!span || !usage) return { body: complete(body), figures, source };
  const parts = [
    complete(body.subarray(0, span.valueStart)),
    Buffer.from(withCost(text, figures, price)),
    complete(body.subarray(span.valueEnd)),
  ];
  return { body: Buffer.concat(parts), figures, source };
}

/** Fields of a picture that OpenAI's clients expect, and that many engines leave out. */
const pictureFields = ["revised_prompt", "url"];
const pictureKey = '"b64_json"';

/** Returns the reply with null for the fields that none of its pictures has. Never parsed: pictures are megabytes of text. */
function withPictureFields(body: Buffer): Buffer {
  const missing = pictureFields.filter((field) => !body.includes(`"${field}"`));
  if (missing.length === 0) return body;
  const nulls = Buffer.from(missing.map((field) => `"${field}":null,`).join(""));
  const parts: Buffer[] = [];
  let start = 0;
  for (let at = body.indexOf(pictureKey); at >= 0; at = body.indexOf(pictureKey, at + pictureKey.length)) {
    let next = at + pictureKey.length;
    while (isSpace(body[next])) next++;
    if (body[next] !== colon) continue;
    parts.push(body.subarray(start, at), nulls);
    start = at;
  }
  return Buffer.concat([...parts, body.subarray(start)]);
}

const colon = 58;

/** The gateway counts spoken text and inputs exactly; it can only bound audio and pictures. */
const isExact = (asked: UnitCounts) => asked.audioMs === 0 && asked.images === 0;

interface UnitUsage {
  readonly tokens: EngineFigures | undefined;
  readonly units: UnitCounts | undefined;
}

/** Reads our own fields, and `seconds` and `input_tokens` as OpenAI-compatible engines report audio and images. */
function readUnitUsage(text: string): UnitUsage | typeof invalidUsage | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return invalidUsage;
  }
  if (value === null) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) return invalidUsage;
  const usage = value as Record<string, unknown>;
  const given = usage["prompt_tokens"] ?? usage["input_tokens"];
  const input = count(given);
  const output = count(usage["completion_tokens"] ?? usage["output_tokens"]);
  const { seconds = null } = usage;
  const isTime = seconds === null || (typeof seconds === "number" && seconds >= 0 && Number.isFinite(seconds));
  if (
    Number.isNaN(input + output) ||
    !isTime ||
    Object.keys(unitNames).some((field) => Number.isNaN(count(usage[field])))
  )
    return invalidUsage;
  const tokens = given == null ? undefined : { ...noFigures, input, output };
  const units = readUnits(typeof seconds === "number" ? { audio_ms: Math.ceil(seconds * 1000), ...usage } : usage);
  return tokens || units ? { tokens, units } : undefined;
}

/** Units that can be read from an answer itself: pictures, or the length of the audio. */
function seenIn(body: Buffer, asked: UnitCounts): UnitCounts | undefined {
  if (asked.images > 0) {
    // Never parsed: pictures are megabytes of text.
    const images = occurrences(body, pictureKey) || occurrences(body, "data:image/");
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

/** Cache of one entry: most requests to a host have the price of the previous one. */
let last: { readonly key: string; readonly rates: TokenRates } | undefined;

export const priceOf = (ticket: Ticket): Price => ({ rates: ratesOf(ticket), max: BigInt(ticket.hold) });

function ratesOf({ rates: [input, cachedInput, output], units }: Ticket): TokenRates {
  const key = `${input} ${cachedInput} ${output}`;
  if (last?.key !== key) {
    last = { key, rates: { input: BigInt(input), cachedInput: BigInt(cachedInput), output: BigInt(output) } };
  }
  const tokens = last.rates;
  if (!units) return tokens;
  const [characters, audio, images, imageUnit] = units.rates;
  return {
    ...tokens,
    units: {
      characters: BigInt(characters),
      audio: BigInt(audio),
      images: BigInt(images),
      imageUnit: BigInt(imageUnit),
    },
  };
}

/** Milliseconds of audio that the hold covers; undefined for a request without audio. */
export function audioBoundMs(units: TicketUnits | undefined): number | undefined {
  if (!units || units.asked.audioMs === 0) return undefined;
  // A control plane of an older version sends no bound: use its count.
  return Math.max(units.asked.audioMs, units.most?.audioMs ?? 0);
}

/** Virtual tokens of a second of audio and of an image, by their cost to an engine relative to a token of text. */
const perAudioSecond = 50;
const perImage = 1_000;

/** Cost for the gate's fairness: only the relative cost of requests to one engine matters. */
export function unitWeight(units: UnitCounts | undefined): number {
  if (!units) return 0;
  return units.characters + (units.audioMs / 1000) * perAudioSecond + units.images * perImage + units.items;
}
