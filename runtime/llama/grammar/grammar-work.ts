// Refuses a grammar before llama.cpp reads it when reading it, or holding tokens against it, would stop the model server.
import type { CharacterElement, GrammarElement, ParsedGrammar } from "./gbnf-rules.ts";
import { UnsupportedConstraint } from "./grammar-rules.ts";
import { GrammarWalk, type OpenStacks, WalkTooLong } from "./grammar-walk.ts";

/** Elements that llama.cpp's search for left recursion may read; it does not remember rules it has seen. */
const maxElementsRead = 20_000_000;
/** Rules that may begin with each other in a row: each is a frame on the stack of llama.cpp. */
const maxLeftDepth = 2_000;
/** Positions that may be open at once: every token of the vocabulary is compared with each. */
export const maxOpenStacks = 2_000;
/** Ways through the grammar that a token of this many characters may have. */
const [tokenCharacters, maxWays] = [8, 1_000_000];
/** Bounds of the search for a text that opens too many positions: texts per start, stacks visited in all. */
const [maxTexts, maxSearchWork] = [200, 100_000];

/** Throws UnsupportedConstraint. */
export function checkGrammarWork(grammar: ParsedGrammar): void {
  checkLeftRecursion(grammar);
  const walk = new GrammarWalk(grammar, maxSearchWork, grammar.space);
  try {
    searchCostlyText(walk, grammar.root);
    for (const rule of embeddedRules(grammar)) searchCostlyText(walk, rule);
  } catch (error) {
    // Parts that the search does not reach are checked token by token (grammar-guard.ts).
    if (!(error instanceof WalkTooLong)) throw error;
  }
}

export function tooAmbiguous(): UnsupportedConstraint {
  return new UnsupportedConstraint(
    `more than ${maxOpenStacks} alternatives are open at the same place; make alternatives differ from their first characters on`,
  );
}

/** Counts what llama.cpp reads for the same check, from shared results. */
function checkLeftRecursion({ elements, rules }: ParsedGrammar): void {
  const isEmpty = emptyRules({ elements, rules });
  const costs = new Map<number, number>();
  const open = new Set<number>();
  let total = 0;
  const cost = (rule: number, depth: number): number => {
    const known = costs.get(rule);
    if (known !== undefined) return known;
    if (open.has(rule) || depth > maxLeftDepth)
      throw new UnsupportedConstraint(
        depth > maxLeftDepth
          ? `more than ${maxLeftDepth} parts begin with each other; nest them less`
          : "a part begins with itself; put a property or a list between them",
      );
    open.add(rule);
    let sum = 1;
    for (const start of rules[rule] ?? []) {
      let isLeft = true;
      for (let at = start; elements[at] !== undefined; at++, sum++) {
        const element = elements[at] as GrammarElement;
        if (isLeft && element.kind === "reference") sum += cost(element.rule, depth + 1);
        isLeft &&= element.kind === "reference" && isEmpty[element.rule] === true;
      }
    }
    open.delete(rule);
    costs.set(rule, sum);
    return sum;
  };
  for (let rule = 0; rule < rules.length; rule++) {
    if (!costs.has(rule)) total += cost(rule, 0);
    if (total > maxElementsRead)
      throw new UnsupportedConstraint(
        "its parts repeat each other too often once references are written out; simplify it",
      );
  }
}

/** For each rule whether it matches the empty text. */
function emptyRules({ elements, rules }: Pick<ParsedGrammar, "elements" | "rules">): readonly boolean[] {
  const isEmpty = rules.map(() => false);
  for (let hasChanged = true; hasChanged; ) {
    hasChanged = false;
    // Rules that a repetition writes out refer to earlier ones: few passes are needed.
    for (let rule = 0; rule < rules.length; rule++) {
      if (isEmpty[rule]) continue;
      const canEnd = (start: number) => {
        let at = start;
        for (let element = elements[at]; element?.kind === "reference" && isEmpty[element.rule]; )
          element = elements[++at];
        return elements[at] === undefined;
      };
      if (rules[rule]?.some(canEnd)) {
        isEmpty[rule] = true;
        hasChanged = true;
      }
    }
  }
  return isEmpty;
}

/** Rules that contain themselves with something after: what they leave open grows with the text. */
function embeddedRules({ elements, rules, root }: ParsedGrammar): readonly number[] {
  const found = new Set<number>();
  const isOpen = new Set<number>();
  const isDone = new Set<number>();
  const todo: { readonly rule: number; readonly next: Iterator<readonly [rule: number, isTail: boolean]> }[] = [];
  const references = function* (rule: number): Iterator<readonly [number, boolean]> {
    for (const start of rules[rule] ?? [])
      for (let at = start; ; at++) {
        const element = elements[at];
        if (element === undefined) break;
        if (element.kind === "reference") yield [element.rule, elements[at + 1] === undefined];
      }
  };
  const enter = (rule: number) => {
    isOpen.add(rule);
    todo.push({ rule, next: references(rule) });
  };
  enter(root);
  for (let frame = todo.at(-1); frame; frame = todo.at(-1)) {
    const { value, done } = frame.next.next();
    if (done) {
      todo.pop();
      isOpen.delete(frame.rule);
      isDone.add(frame.rule);
      continue;
    }
    const [rule, isTail] = value;
    // A rule that only ends with itself is a loop: it leaves nothing open.
    if (isOpen.has(rule)) {
      if (!isTail || rule !== frame.rule) found.add(rule);
    } else if (!isDone.has(rule)) enter(rule);
  }
  return [...found];
}

/** Follows the texts with the most open positions first. */
function searchCostlyText(walk: GrammarWalk, rule: number): void {
  const seen = new Set<string>();
  const waiting: { readonly open: OpenStacks; readonly length: number }[] = [];
  const add = (open: OpenStacks, length: number) => {
    check(open);
    const key = open.stacks.join();
    if (open.stacks.length === 0 || seen.has(key)) return;
    seen.add(key);
    waiting.push({ open, length });
  };
  add(walk.start(rule), 0);
  for (let texts = 0; texts < maxTexts && waiting.length > 0; texts++) {
    const max = waiting.reduce(
      (best, one, i, all) => (one.open.stacks.length > (all[best]?.open.stacks.length ?? 0) ? i : best),
      0,
    );
    const [{ open, length }] = waiting.splice(max, 1) as [{ open: OpenStacks; length: number }];
    const isTokenEnd = length % tokenCharacters === 0;
    const from = isTokenEnd ? { stacks: open.stacks, ways: open.stacks.map(() => 1) } : open;
    for (const point of firstCharacters(walk, from.stacks)) add(walk.accept(from, point), length + 1);
  }
}

function check({ stacks, ways }: OpenStacks): void {
  if (stacks.length > maxOpenStacks || ways.reduce((sum, one) => sum + one, 0) > maxWays) throw tooAmbiguous();
}

const maxCharacters = 16;
/** Tried for sets that only say what they exclude. */
const samples = [...'a0 ."\\\n'].map((char) => char.codePointAt(0) as number);

/** A character for each kind of top; stacks that share a top go on together. */
function firstCharacters(walk: GrammarWalk, stacks: readonly number[]): readonly number[] {
  const points = new Set<number>();
  for (const stack of stacks) {
    if (points.size >= maxCharacters) break;
    if (stack === 0) continue;
    const { ranges, isNegated }: CharacterElement = walk.top(stack);
    const first = isNegated
      ? samples.find(
          (point) => !ranges.some((low, i) => i % 2 === 0 && low <= point && point <= (ranges[i + 1] as number)),
        )
      : ranges[0];
    if (first !== undefined) points.add(first);
  }
  return [...points];
}
