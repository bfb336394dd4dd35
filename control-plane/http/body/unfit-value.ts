// What JSON can spell and nothing behind the edge can hold: nesting without end, more values than can be parsed in time, and half of
// a surrogate pair ("\\ud800" alone), which has no UTF-8 and which PostgreSQL and engines refuse each in its own way.
import { isUtf8 } from "node:buffer";
import { type JsonProblem, type JsonScan, maxJsonDepth, scanJson } from "../../../proto/json-scan.ts";
import { bodyNotUtf8, jsonTooComplex, nestedTooDeep, textNotUnicode } from "../errors/errors.ts";

/** Above it a body is copied, judged and parsed in turns of the event loop of their own. */
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

/** `judgeJson` of the same large bytes will take no time. */
export function judgeAhead(bytes: Buffer): void {
  judgedAhead.set(bytes, judge(bytes));
}

/** Before anything is parsed. Throws bodyNotUtf8, nestedTooDeep, jsonTooComplex. */
export function judgeJson(bytes: Buffer): JsonScan {
  const { isText, scan } = (bytes.length < largeBytes ? undefined : judgedAhead.get(bytes)) ?? judge(bytes);
  // A decoder would replace what it cannot read by U+FFFD, and the model would be asked something else.
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

/** For a body whose scan found one. Throws textNotUnicode with the name of the field. */
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

/** As fields are named to callers; keys that a caller made up are cut. Undefined: the body itself. */
function pathOf(place: Place, last?: string): string | undefined {
  const keys = last === undefined ? [] : [last];
  for (let at: Place | undefined = place; at?.above; at = at.above) keys.push(String(at.key));
  const names = keys.reverse().map((key) => key.slice(0, 64).toWellFormed());
  return names.length === 0 ? undefined : names.join(".");
}
