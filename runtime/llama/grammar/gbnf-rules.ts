// Parses GBNF into the rules that llama.cpp makes of it, repetitions written out, so that its work can be measured here first.
import { UnsupportedConstraint } from "./grammar-rules.ts";

/** Maximum number of elements of one grammar once its repetitions are written out. */
export const maxElements = 200_000;

/** Character set: pairs of first and last code point. */
export interface CharacterElement {
  readonly kind: "characters";
  readonly isNegated: boolean;
  readonly ranges: readonly number[];
}

export type GrammarElement = CharacterElement | { readonly kind: "reference"; readonly rule: number };

export interface ParsedGrammar {
  /** Every alternative of every rule in turn; undefined ends an alternative. */
  readonly elements: readonly (GrammarElement | undefined)[];
  /** For each rule the index of the first element of each alternative. */
  readonly rules: readonly (readonly number[])[];
  readonly root: number;
  /** Rules for insignificant space. */
  readonly space: number | undefined;
}

/** Throws UnsupportedConstraint for what is too large or not GBNF. */
export function parseGbnf(text: string): ParsedGrammar {
  return new GbnfParser(text).parse();
}

const controls: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };
const hexLengths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class GbnfParser {
  readonly #text: string;
  readonly #names = new Map<string, number>();
  readonly #bodies: (GrammarElement[][] | undefined)[] = [];
  #at = 0;
  #size = 0;

  constructor(text: string) {
    this.#text = text;
  }

  parse(): ParsedGrammar {
    this.#space(true);
    while (this.#at < this.#text.length) {
      const rule = this.#symbol(this.#name());
      this.#space(false);
      this.#expect("::=");
      this.#space(true);
      this.#bodies[rule] = this.#alternatives(false);
      this.#space(true);
    }
    const elements: (GrammarElement | undefined)[] = [];
    const rules = Array.from(this.#bodies, (body) => {
      if (!body) throw this.#broken();
      return body.map((alternative) => {
        const start = elements.length;
        for (const element of alternative) elements.push(element);
        elements.push(undefined);
        return start;
      });
    });
    const root = this.#names.get("root");
    if (root === undefined) throw this.#broken();
    return { elements, rules, root, space: this.#names.get("ws") };
  }

  #alternatives(isNested: boolean): GrammarElement[][] {
    const alternatives = [this.#sequence(isNested)];
    while (this.#text[this.#at] === "|") {
      this.#at++;
      this.#space(true);
      alternatives.push(this.#sequence(isNested));
    }
    return alternatives;
  }

  #sequence(isNested: boolean): GrammarElement[] {
    const sequence: GrammarElement[] = [];
    let last = 0;
    for (;;) {
      const char = this.#text[this.#at] ?? "";
      if (char === '"') {
        last = sequence.length;
        this.#at++;
        while (this.#text[this.#at] !== '"') {
          const point = this.#character();
          sequence.push({ kind: "characters", isNegated: false, ranges: [point, point] });
          this.#count(1);
        }
        this.#at++;
      } else if (char === "[") {
        last = sequence.length;
        sequence.push(this.#class());
        this.#count(1);
      } else if (char === ".") {
        last = sequence.length;
        this.#at++;
        sequence.push({ kind: "characters", isNegated: true, ranges: [] });
        this.#count(1);
      } else if (char === "(") {
        last = sequence.length;
        this.#at++;
        this.#space(true);
        sequence.push(this.#newRule(this.#alternatives(true)));
        this.#expect(")");
        this.#count(1);
      } else if (char !== "" && "*+?{".includes(char)) this.#repeat(sequence, last, this.#times());
      else if (/[a-zA-Z0-9-]/.test(char)) {
        last = sequence.length;
        sequence.push({ kind: "reference", rule: this.#symbol(this.#name()) });
        this.#count(1);
      } else return sequence;
      this.#space(isNested);
    }
  }

  /** Writes out a repetition of what follows `from` as llama.cpp does: copies, then a chain of optional rules. */
  #repeat(sequence: GrammarElement[], from: number, { min, max }: { min: number; max: number | undefined }): void {
    const repeated = sequence.slice(from);
    if (repeated.length === 0) throw this.#broken();
    this.#count(repeated.length * Math.max(min, max ?? 1));
    sequence.length = from;
    for (let i = 0; i < min; i++) sequence.push(...repeated);
    if (max === undefined) {
      const loop: GrammarElement = { kind: "reference", rule: this.#bodies.length };
      this.#bodies.push([[...repeated, loop], []]);
      sequence.push(loop);
      return;
    }
    let rest: GrammarElement | undefined;
    for (let i = min; i < max; i++) rest = this.#newRule([rest ? [...repeated, rest] : repeated, []]);
    if (rest) sequence.push(rest);
  }

  #times(): { min: number; max: number | undefined } {
    const char = this.#text[this.#at++];
    if (char === "*") return { min: 0, max: undefined };
    if (char === "+") return { min: 1, max: undefined };
    if (char === "?") return { min: 0, max: 1 };
    const end = this.#text.indexOf("}", this.#at);
    const [, low, comma, high] = /^\s*(\d+)\s*(,)?\s*(\d*)\s*$/.exec(this.#text.slice(this.#at, end)) ?? [];
    if (end < 0 || low === undefined) throw this.#broken();
    this.#at = end + 1;
    const min = Number(low);
    if (comma === undefined) return { min, max: min };
    return { min, max: high === "" ? undefined : Number(high) };
  }

  #class(): CharacterElement {
    this.#at++;
    const isNegated = this.#text[this.#at] === "^";
    if (isNegated) this.#at++;
    const ranges: number[] = [];
    while (this.#text[this.#at] !== "]") {
      const first = this.#character();
      const isRange = this.#text[this.#at] === "-" && this.#text[this.#at + 1] !== "]";
      if (isRange) this.#at++;
      ranges.push(first, isRange ? this.#character() : first);
    }
    this.#at++;
    return { kind: "characters", isNegated, ranges };
  }

  #character(): number {
    const point = this.#text.codePointAt(this.#at);
    if (point === undefined) throw this.#broken();
    this.#at += point > 0xffff ? 2 : 1;
    if (point !== 92) return point;
    const escaped = this.#text[this.#at++] ?? "";
    const length = hexLengths[escaped];
    if (length === undefined) return (controls[escaped] ?? escaped).codePointAt(0) as number;
    const digits = this.#text.slice(this.#at, this.#at + length);
    this.#at += length;
    return Number.parseInt(digits, 16);
  }

  #name(): string {
    const start = this.#at;
    while (/[a-zA-Z0-9-]/.test(this.#text[this.#at] ?? "")) this.#at++;
    if (this.#at === start) throw this.#broken();
    return this.#text.slice(start, this.#at);
  }

  #symbol(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    this.#bodies.push(undefined);
    this.#names.set(name, this.#bodies.length - 1);
    return this.#bodies.length - 1;
  }

  #newRule(body: GrammarElement[][]): GrammarElement {
    this.#bodies.push(body);
    this.#count(1);
    return { kind: "reference", rule: this.#bodies.length - 1 };
  }

  #count(elements: number): void {
    this.#size += elements;
    if (this.#size > maxElements)
      throw new UnsupportedConstraint(
        `it makes a grammar of more than ${maxElements} elements; use fewer or shorter repetitions`,
      );
  }

  #space(isAcrossLines: boolean): void {
    for (;;) {
      const char = this.#text[this.#at];
      if (char === " " || char === "\t" || (isAcrossLines && (char === "\n" || char === "\r"))) this.#at++;
      else return;
    }
  }

  #expect(text: string): void {
    if (!this.#text.startsWith(text, this.#at)) throw this.#broken();
    this.#at += text.length;
  }

  #broken(): Error {
    return new UnsupportedConstraint("it makes a grammar that llama.cpp refuses");
  }
}
