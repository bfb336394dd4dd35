// The stacks of open positions that llama.cpp keeps for a text, computed here: how many there are is what a token costs.
import type { CharacterElement, GrammarElement, ParsedGrammar } from "./gbnf-rules.ts";

/** A stack is a number: 0 is empty, every other one a position on top of another stack. */
export interface OpenStacks {
  readonly stacks: readonly number[];
  /** For each stack the number of ways that led there; llama.cpp follows each of them within one token. */
  readonly ways: readonly number[];
}

export class WalkTooLong extends Error {}

export class GrammarWalk {
  readonly #grammar: ParsedGrammar;
  readonly #skipped: number | undefined;
  readonly #positions: number[] = [-1];
  readonly #parents: number[] = [0];
  readonly #ids = new Map<number, number>();
  readonly #closed = new Map<number, readonly number[]>();
  #workLeft: number;

  /** `work`: stacks that may be visited before WalkTooLong is thrown; `skipped`: a rule that counts as empty. */
  constructor(grammar: ParsedGrammar, work: number, skipped?: number) {
    this.#grammar = grammar;
    this.#workLeft = work;
    this.#skipped = skipped;
  }

  /** Allows this much more work. */
  refill(work: number): void {
    this.#workLeft = Math.max(this.#workLeft, work);
  }

  get size(): number {
    return this.#positions.length;
  }

  start(rule: number): OpenStacks {
    const found = new Map<number, number>();
    for (const position of this.#grammar.rules[rule] ?? [])
      for (const stack of this.#close(this.#push(0, position))) found.set(stack, (found.get(stack) ?? 0) + 1);
    return openStacks(found);
  }

  /** The stacks after one more character; none when the character does not fit. */
  accept({ stacks, ways }: OpenStacks, point: number): OpenStacks {
    const found = new Map<number, number>();
    for (let i = 0; i < stacks.length; i++) {
      const stack = stacks[i] as number;
      this.#spend(1);
      if (stack === 0 || !matches(this.top(stack), point)) continue;
      const next = this.#push(this.#parents[stack] as number, (this.#positions[stack] as number) + 1);
      for (const after of this.#close(next)) found.set(after, (found.get(after) ?? 0) + (ways[i] as number));
    }
    return openStacks(found);
  }

  /** The characters that the top of a stack, which is not empty, allows. */
  top(stack: number): CharacterElement {
    return this.#grammar.elements[this.#positions[stack] as number] as CharacterElement;
  }

  /** Positions at the end of an alternative are not pushed, as in llama.cpp. */
  #push(parent: number, position: number): number {
    if (this.#grammar.elements[position] === undefined) return parent;
    const key = parent * this.#grammar.elements.length + position;
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    const id = this.#positions.length;
    this.#positions.push(position);
    this.#parents.push(parent);
    this.#ids.set(key, id);
    return id;
  }

  /** Replaces references by what they begin with until characters are on top. */
  #close(stack: number): readonly number[] {
    const known = this.#closed.get(stack);
    if (known) return known;
    const seen = new Set<number>();
    const result: number[] = [];
    const todo = [stack];
    for (let current = todo.pop(); current !== undefined; current = todo.pop()) {
      if (seen.has(current)) continue;
      seen.add(current);
      this.#spend(1);
      const position = this.#positions[current] as number;
      const element = current === 0 ? undefined : (this.#grammar.elements[position] as GrammarElement);
      if (element?.kind !== "reference") result.push(current);
      else {
        const rest = this.#push(this.#parents[current] as number, position + 1);
        if (element.rule === this.#skipped) todo.push(rest);
        else for (const start of this.#grammar.rules[element.rule] ?? []) todo.push(this.#push(rest, start));
      }
    }
    this.#closed.set(stack, result);
    return result;
  }

  #spend(work: number): void {
    this.#workLeft -= work;
    if (this.#workLeft < 0) throw new WalkTooLong();
  }
}

const openStacks = (found: ReadonlyMap<number, number>): OpenStacks => ({
  stacks: [...found.keys()],
  ways: [...found.values()],
});

function matches({ ranges, isNegated }: CharacterElement, point: number): boolean {
  for (let i = 0; i < ranges.length; i += 2)
    if ((ranges[i] as number) <= point && point <= (ranges[i + 1] as number)) return !isNegated;
  return isNegated;
}
