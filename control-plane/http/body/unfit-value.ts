// Refuses JSON that other components cannot handle: deep nesting, too many values to parse in time, and an unpaired surrogate
// ("\\ud800"), which has no UTF-8 and which PostgreSQL and engines reject in different ways.
import { isUtf8 } from "node:buffer";
import { type JsonProblem, type JsonScan, maxJsonDepth, scanJson } from "../../../proto/json-scan.ts";
import { bodyNotUtf8, jsonTooComplex, nestedTooDeep, textNotUnicode } from "../errors/errors.ts";

/** Above this size, a body is copied, scanned and parsed in separate turns of the event loop. */
export const largeBytes = 4 * 1024 * 1024;

interface Judged {
  readonly isText: boolean;
  readonly scan: JsonScan | JsonProblem;
}

const judgedAhead = new WeakMap<Buffer, Judged>();
const judge = (bytes: Buffer): Judged => {
  const isText = isUtf8(bytes);
  return { isText, scan: isText ? scanJson(bytes) : "too_deep" };
};

/** Scans a large body ahead of `judgeJson`. */
export function judgeAhead(bytes: Buffer): void {
  judgedAhead.set(bytes, judge(bytes));
}

/** Scans a body before it is parsed. Throws bodyNotUtf8, nestedTooDeep, jsonTooComplex. */
export function judgeJson(bytes: Buffer): JsonScan {
  const { isText, scan } = (bytes.length < largeBytes ? undefined : judgedAhead.get(bytes)) ?? judge(bytes);
  // A decoder would replace invalid bytes by U+FFFD and change the prompt.
  if (!isText) throw bodyNotUtf8();
  if (scan === "too_deep") throw nestedTooDeep(maxJsonDepth);
  if (scan === "too_complex") throw jsonTooComplex();
  return scan;
}

interface Place {
  readonly value: object;
  readonly key: string | number;
  readonly above: Place | undefined;
}

/** For a body in which the scan found an unpaired surrogate. Throws textNotUnicode with the name of the field. */
export function refuseLoneSurrogate(value: unknown): void {
  if (typeof value === "string") refuseText(value, undefined);
  if (typeof value !== "object" || value === null) return;
  const waiting: Place[] = [{ value, key: "", above: undefined }];
  for (let place = waiting.pop(); place; place = waiting.pop()) {
    for (const [key, member] of Object.entries(place.value)) {
      if (!Array.isArray(place.value)) refuseText(key, place);
      if (typeof member === "string") refuseText(member, place, key);
      else if (typeof member === "object" && member !== null) waiting.push({ value: member, key, above: place });
    }
  }
}

function refuseText(text: string, place: Place | undefined, key?: string): void {
  if (!text.isWellFormed()) throw textNotUnicode(place && pathOf(place, key));
}

/** Path of the field as shown to callers, with long keys cut. Undefined: the body itself. */
function pathOf(place: Place, last?: string): string | undefined {
  const keys = last === undefined ? [] : [last];
  for (let at: Place | undefined = place; at?.above; at = at.above) keys.push(String(at.key));
  const names = keys.reverse().map((key) => key.slice(0, 64).toWellFormed());
  return names.length === 0 ? undefined : names.join(".");
}
