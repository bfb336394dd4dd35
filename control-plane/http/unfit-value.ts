// What JSON can spell and nobody behind the edge can hold: half of a surrogate pair ("\ud800" alone), which has no UTF-8 and is
// refused by PostgreSQL and engines each in a way of its own, and nesting that overruns the stack of whoever writes it anew.
import { NestedTooDeep, TextNotUnicode } from "./errors.ts";

/** Of lists and objects within each other: more than any JSON schema that people write. */
export const mostDepth = 256;

const escapedHalf = /\\u[dD][89a-fA-F]/;

interface Place {
  readonly value: object;
  readonly depth: number;
  readonly key: string | number;
  readonly above: Place | undefined;
}

/** `text`: what `value` was read from. Throws TextNotUnicode, NestedTooDeep. */
export function refuseUnfit(value: unknown, text: string): void {
  const mayHoldHalves = text.includes("\\u") && escapedHalf.test(text);
  // Each level opens and closes.
  if (!mayHoldHalves && text.length <= 2 * mostDepth) return;
  if (typeof value === "string" && !value.isWellFormed()) throw new TextNotUnicode(undefined);
  if (typeof value === "object" && value !== null) look(value, mayHoldHalves);
}

/** With a stack of its own: the one of calls is what deep nesting would overrun. */
function look(whole: object, readsTexts: boolean): void {
  const waiting: Place[] = [{ value: whole, depth: 1, key: "", above: undefined }];
  for (let place = waiting.pop(); place; place = waiting.pop()) {
    const { value, depth } = place;
    if (depth > mostDepth) throw new NestedTooDeep(mostDepth);
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) visit(waiting, place, i, value[i], readsTexts);
      continue;
    }
    for (const [key, member] of Object.entries(value)) {
      if (readsTexts && !key.isWellFormed()) throw new TextNotUnicode(pathOf(place));
      visit(waiting, place, key, member, readsTexts);
    }
  }
}

function visit(waiting: Place[], above: Place, key: string | number, value: unknown, readsTexts: boolean): void {
  if (typeof value === "string") {
    if (readsTexts && !value.isWellFormed()) throw new TextNotUnicode(pathOf(above, key));
  } else if (typeof value === "object" && value !== null) {
    waiting.push({ value, depth: above.depth + 1, key, above });
  }
}

/** As fields are named to callers; keys of their own making are cut. Undefined: the body itself. */
function pathOf(place: Place, last?: string | number): string | undefined {
  const keys = last === undefined ? [] : [last];
  for (let at: Place | undefined = place; at?.above; at = at.above) keys.push(at.key);
  const names = keys.reverse().map((key) => String(key).slice(0, 64).toWellFormed());
  return names.length === 0 ? undefined : names.join(".");
}
