// Regular expression -> GBNF expression for what both can say: literals, classes, groups, alternatives, repetition.
// Anything else (look-around, back references, word borders) is refused by name.
import { choiceOf } from "./choice-tree.ts";
import { literal, UnsupportedConstraint } from "./grammar-rules.ts";

export interface Dialect {
  /** A literal character as it appears in the text. */
  readonly char: (char: string) => string;
  /** Members, in class syntax, that no class may match. */
  readonly forbidden: string;
}

export const plainText: Dialect = { char: literal, forbidden: "" };
/** Inside a JSON string: quotes and backslashes appear escaped, control characters not at all. */
export const insideJson: Dialect = {
  char: (char) => literal(JSON.stringify(char).slice(1, -1)),
  forbidden: '"\\\\\\x00-\\x1F',
};

/** Longer ones, and those with more repetitions, block all requests for seconds per token. */
const longest = 10_000;
/** Maximum number of variable-length parts; those in a repeated group count once per repetition, as all may be open at once. */
const maxVarying = 64;
/**
 * Maximum number of those without a fixed character between them. llama.cpp follows every path through them for each token: this
 * many take 0.3 s a token, twice as many take minutes.
 */
const maxAdjacent = 16;
/** Factor of those within an endless repetition: any letter can start one again, or only a certain character can. */
const [loopFactor, markedLoopFactor] = [4, 2];
/** In all groups together: each token is held against those that are open, as all of groups within groups may be. */
const maxBranches = 1000;
/** llama.cpp makes a rule of each: of one repetition, and of all that are counted. */
const maxTimes = 2000;
const maxCounted = 10_000;

const classes: Readonly<Record<string, string>> = { d: "0-9", w: "a-zA-Z0-9_", s: " \\t\\n\\r" };
const controls: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", f: "\f", v: "\v" };

export interface Converted {
  readonly expression: string;
  readonly startsAnchored: boolean;
  readonly endsAnchored: boolean;
}

const pointOf = (char: string) => char.codePointAt(0) as number;

const refuse = (what: string): never => {
  throw new UnsupportedConstraint(`the regular expression uses ${what}, which a grammar cannot hold`);
};

/** Throws UnsupportedConstraint. */
export function regexToGbnf(regex: string, dialect: Dialect = plainText): Converted {
  if (regex.length > longest) refuse(`more than ${longest} characters`);
  const startsAnchored = regex.startsWith("^");
  const endsAnchored = regex.endsWith("$") && !/(^|[^\\])(\\\\)*\\\$$/.test(regex);
  const inner = [...regex.slice(startsAnchored ? 1 : 0, endsAnchored ? -1 : undefined)];
  return { expression: new RegexConverter(inner, dialect).expression(), startsAnchored, endsAnchored };
}

interface Counts {
  varying: number;
  /** Those since the last character that must be there, and how many such characters there were. */
  adjacent: number;
  marks: number;
}

class RegexConverter {
  readonly #inner: readonly string[];
  readonly #dialect: Dialect;
  readonly #counts: Counts = { varying: 0, adjacent: 0, marks: 0 };
  #at = 0;
  #counted = 0;
  #bars = 0;

  /** `inner`: characters between the anchors. */
  constructor(inner: readonly string[], dialect: Dialect) {
    this.#inner = inner;
    this.#dialect = dialect;
  }

  expression(): string {
    const expression = this.#alternatives();
    if (this.#at < this.#inner.length) refuse("a closing parenthesis without its opening one");
    return `(${expression})`;
  }

  #alternatives(): string {
    const counts = this.#counts;
    const before = { ...counts };
    const branches: string[][] = [];
    let fewestMarks = Number.POSITIVE_INFINITY;
    let maxOpen = 0;
    do {
      if (branches.length > 0) {
        this.#at++;
        this.#bars++;
      }
      [counts.adjacent, counts.marks] = [before.adjacent, before.marks];
      branches.push(this.#sequence());
      if (this.#bars >= maxBranches) refuse(`more than ${maxBranches} alternatives`);
      fewestMarks = Math.min(fewestMarks, counts.marks);
      maxOpen = Math.max(maxOpen, counts.adjacent);
    } while (this.#inner[this.#at] === "|");
    counts.marks = fewestMarks;
    counts.adjacent = counts.marks > before.marks ? maxOpen : before.adjacent + counts.varying - before.varying;
    return choiceOf(branches);
  }

  #sequence(): string[] {
    const counts = this.#counts;
    const parts: string[] = [];
    while (this.#at < this.#inner.length && this.#inner[this.#at] !== "|" && this.#inner[this.#at] !== ")") {
      const before = { ...counts };
      const one = this.#atom();
      const times = this.#quantifier(before);
      parts.push(one + times);
      if (counts.adjacent > maxAdjacent)
        refuse(`more than ${maxAdjacent} repetitions of varying length with no certain character between them`);
      if (times === "" && one.startsWith('"')) [counts.adjacent, counts.marks] = [0, counts.marks + 1];
    }
    if (parts.length === 0) counts.varying += 1;
    return parts;
  }

  #atom(): string {
    const char = this.#inner[this.#at++] as string;
    if (char === "(") {
      if (this.#inner[this.#at] === "?") {
        if (this.#inner[this.#at + 1] !== ":") refuse("look-around or a named group");
        this.#at += 2;
      }
      const body = this.#alternatives();
      if (this.#inner[this.#at++] !== ")") refuse("an open group");
      return `(${body})`;
    }
    if (char === "[") return this.#classOf();
    if (char === ".") return `[^\\n${this.#dialect.forbidden}]`;
    if (char === "^" || char === "$") refuse("an anchor inside");
    if ("*+?{".includes(char)) refuse(`a repetition "${char}" of nothing`);
    if (char !== "\\") return this.#dialect.char(char);
    const escaped = this.#inner[this.#at++] ?? refuse("a backslash at its end");
    const members = classes[escaped.toLowerCase()];
    if (members !== undefined)
      return escaped === escaped.toLowerCase() ? `[${members}]` : `[^${members}${this.#dialect.forbidden}]`;
    return this.#dialect.char(this.#escapedChar(escaped));
  }

  #escapedChar(escaped: string): string {
    const control = controls[escaped];
    if (control !== undefined) return control;
    if (escaped === "u" || escaped === "x") {
      const digits = this.#inner.slice(this.#at, this.#at + (escaped === "u" ? 4 : 2)).join("");
      if (!/^([0-9a-fA-F]{2}|[0-9a-fA-F]{4})$/.test(digits)) refuse(`\\${escaped} without its digits`);
      this.#at += digits.length;
      return String.fromCodePoint(Number.parseInt(digits, 16));
    }
    if (/[a-zA-Z0-9]/.test(escaped)) refuse(`\\${escaped}`);
    return escaped;
  }

  #classOf(): string {
    const isNegated = this.#inner[this.#at] === "^";
    if (isNegated) this.#at++;
    let members = "";
    /** The character before a "-" that makes a range of it; undefined where none can begin. */
    let from: string | undefined;
    let isRange = false;
    const add = (char: string) => {
      if (isRange && from !== undefined && pointOf(from) > pointOf(char))
        refuse(`the range ${from}-${char}, which ends below its beginning`);
      from = isRange ? undefined : char;
      isRange = false;
      members += this.#classMember(char);
    };
    for (let first = true; first || this.#inner[this.#at] !== "]"; first = false) {
      const char = this.#inner[this.#at++] ?? refuse("an open class");
      if (char === "-" && from !== undefined && this.#inner[this.#at] !== "]") {
        isRange = true;
        members += "-";
      } else if (char !== "\\") add(char);
      else {
        const escaped = this.#inner[this.#at++] ?? refuse("a backslash at its end");
        const many = classes[escaped];
        if (many !== undefined && isRange) refuse(`a range up to \\${escaped}`);
        if (many === undefined) add(this.#escapedChar(escaped));
        else {
          members += many;
          from = undefined;
        }
      }
    }
    this.#at++;
    return isNegated ? `[^${members}${this.#dialect.forbidden}]` : `[${members}]`;
  }

  #classMember(char: string): string {
    if (this.#dialect.forbidden !== "" && this.#dialect.char(char) !== literal(char))
      refuse(`"${char}" in a class of a JSON string`);
    return /[\]\\^\-[]/.test(char) || char < " "
      ? `\\x${pointOf(char).toString(16).padStart(2, "0").toUpperCase()}`
      : char;
  }

  /** `before`: the counts before what is repeated. */
  #quantifier(before: Counts): string {
    const counts = this.#counts;
    const char = this.#inner[this.#at];
    let text = "";
    if (char === "*" || char === "+" || char === "?") text = this.#inner[this.#at++] as string;
    else if (char === "{") {
      const end = this.#inner.indexOf("}", this.#at);
      text = end < 0 ? "" : this.#inner.slice(this.#at, end + 1).join("");
      this.#at = end + 1;
    }
    if (text === "" && char !== "{") return "";
    const [, low = "", comma, high = ""] = /^\{(\d+)(?:(,)(\d*))?\}$/.exec(text) ?? [];
    if (char === "{" && low === "") refuse(`the repetition "${text || "{"}"`);
    if (high !== "" && Number(high) < Number(low)) refuse(`the repetition "${text}", which ends below its beginning`);
    const times = Math.max(1, Number(low), Number(high));
    const within = counts.varying - before.varying;
    const isEndless = char === "*" || char === "+" || (comma !== undefined && high === "");
    const isMarked = counts.marks > before.marks;
    const factor = isEndless ? (isMarked ? markedLoopFactor : loopFactor) : 1;
    const mayVary = char !== "{" || (comma !== undefined && high !== low);
    const own = mayVary && !(isEndless && within > 0) ? 1 : 0;
    counts.varying = before.varying + within * times * factor + own;
    counts.adjacent = before.adjacent + within * (isMarked ? 1 : times) * factor + own;
    if (char !== "+" && !(Number(low) > 0)) counts.marks = before.marks;
    if (counts.varying > maxVarying) refuse(`more than ${maxVarying} repetitions of varying length`);
    if (times > maxTimes) refuse(`the repetition "${text}" (${maxTimes} at most)`);
    if (char === "{") this.#counted += times;
    if (this.#counted > maxCounted) refuse(`repetitions of more than ${maxCounted} times in all`);
    // A lazy repetition matches the same texts.
    if (this.#inner[this.#at] === "?") this.#at++;
    if (this.#inner[this.#at] === "+") refuse("a possessive repetition");
    return text;
  }
}
