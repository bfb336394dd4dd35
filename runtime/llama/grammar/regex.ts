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

/** Longer ones, and those of more repetitions, take seconds of everybody's time for each token. */
const longest = 10_000;
/** Maximum number of variable-length parts; those in a repeated group count once per repetition, as all may be open at once. */
const maxVarying = 64;
/**
 * Maximum number of those without a fixed character between them. llama.cpp follows every path through them for each token: this
 * many take 0.3 s a token, twice as many take minutes.
 */
const maxAdjacent = 16;
/** Those within an endless repetition count as so many: each letter may begin any anew, or a certain character alone. */
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

/** Throws UnsupportedConstraint. */
export function regexToGbnf(regex: string, dialect: Dialect = plainText): Converted {
  const startsAnchored = regex.startsWith("^");
  const endsAnchored = regex.endsWith("$") && !/(^|[^\\])(\\\\)*\\\$$/.test(regex);
  const inner = [...regex.slice(startsAnchored ? 1 : 0, endsAnchored ? -1 : undefined)];
  let at = 0;
  let varying = 0;
  /** Repetitions of varying length since the last character that must be there, and how many such characters there were. */
  let adjacent = 0;
  let marks = 0;
  let counted = 0;
  let bars = 0;
  const refuse = (what: string): never => {
    throw new UnsupportedConstraint(`the regular expression uses ${what}, which a grammar cannot hold`);
  };
  if (regex.length > longest) refuse(`more than ${longest} characters`);

  const alternatives = (): string => {
    const before = { varying, adjacent, marks };
    const branches: string[][] = [];
    let fewestMarks = Number.POSITIVE_INFINITY;
    let maxOpen = 0;
    do {
      if (branches.length > 0) {
        at++;
        bars++;
      }
      [adjacent, marks] = [before.adjacent, before.marks];
      branches.push(sequence());
      if (bars >= maxBranches) refuse(`more than ${maxBranches} alternatives`);
      fewestMarks = Math.min(fewestMarks, marks);
      maxOpen = Math.max(maxOpen, adjacent);
    } while (inner[at] === "|");
    marks = fewestMarks;
    adjacent = marks > before.marks ? maxOpen : before.adjacent + varying - before.varying;
    return choiceOf(branches);
  };
  const sequence = (): string[] => {
    const parts: string[] = [];
    while (at < inner.length && inner[at] !== "|" && inner[at] !== ")") {
      const before = { varying, adjacent, marks };
      const one = atom();
      const times = quantifier(before);
      parts.push(one + times);
      if (adjacent > maxAdjacent)
        refuse(`more than ${maxAdjacent} repetitions of varying length with no certain character between them`);
      if (times === "" && one.startsWith('"')) [adjacent, marks] = [0, marks + 1];
    }
    if (parts.length === 0) varying += 1;
    return parts;
  };
  const atom = (): string => {
    const char = inner[at++] as string;
    if (char === "(") {
      if (inner[at] === "?") {
        if (inner[at + 1] !== ":") refuse("look-around or a named group");
        at += 2;
      }
      const body = alternatives();
      if (inner[at++] !== ")") refuse("an open group");
      return `(${body})`;
    }
    if (char === "[") return classOf();
    if (char === ".") return `[^\\n${dialect.forbidden}]`;
    if (char === "^" || char === "$") refuse("an anchor inside");
    if ("*+?{".includes(char)) refuse(`a repetition "${char}" of nothing`);
    if (char !== "\\") return dialect.char(char);
    const escaped = inner[at++] ?? refuse("a backslash at its end");
    const members = classes[escaped.toLowerCase()];
    if (members !== undefined)
      return escaped === escaped.toLowerCase() ? `[${members}]` : `[^${members}${dialect.forbidden}]`;
    return dialect.char(escapedChar(escaped));
  };
  const escapedChar = (escaped: string): string => {
    const control = controls[escaped];
    if (control !== undefined) return control;
    if (escaped === "u" || escaped === "x") {
      const digits = inner.slice(at, at + (escaped === "u" ? 4 : 2)).join("");
      if (!/^([0-9a-fA-F]{2}|[0-9a-fA-F]{4})$/.test(digits)) refuse(`\\${escaped} without its digits`);
      at += digits.length;
      return String.fromCodePoint(Number.parseInt(digits, 16));
    }
    if (/[a-zA-Z0-9]/.test(escaped)) refuse(`\\${escaped}`);
    return escaped;
  };
  const classOf = (): string => {
    const isNegated = inner[at] === "^";
    if (isNegated) at++;
    let members = "";
    /** The character before a "-" that makes a range of it; undefined where none can begin. */
    let from: string | undefined;
    let isRange = false;
    const add = (char: string) => {
      if (isRange && from !== undefined && pointOf(from) > pointOf(char))
        refuse(`the range ${from}-${char}, which ends below its beginning`);
      from = isRange ? undefined : char;
      isRange = false;
      members += classMember(char);
    };
    for (let first = true; first || inner[at] !== "]"; first = false) {
      const char = inner[at++] ?? refuse("an open class");
      if (char === "-" && from !== undefined && inner[at] !== "]") {
        isRange = true;
        members += "-";
      } else if (char !== "\\") add(char);
      else {
        const escaped = inner[at++] ?? refuse("a backslash at its end");
        const many = classes[escaped];
        if (many !== undefined && isRange) refuse(`a range up to \\${escaped}`);
        if (many === undefined) add(escapedChar(escaped));
        else {
          members += many;
          from = undefined;
        }
      }
    }
    at++;
    return isNegated ? `[^${members}${dialect.forbidden}]` : `[${members}]`;
  };
  const classMember = (char: string): string => {
    if (dialect.forbidden !== "" && dialect.char(char) !== literal(char))
      refuse(`"${char}" in a class of a JSON string`);
    return /[\]\\^\-[]/.test(char) || char < " "
      ? `\\x${pointOf(char).toString(16).padStart(2, "0").toUpperCase()}`
      : char;
  };
  /** `before`: the counts before what is repeated. */
  const quantifier = (before: { varying: number; adjacent: number; marks: number }): string => {
    const char = inner[at];
    let text = "";
    if (char === "*" || char === "+" || char === "?") text = inner[at++] as string;
    else if (char === "{") {
      const end = inner.indexOf("}", at);
      text = end < 0 ? "" : inner.slice(at, end + 1).join("");
      at = end + 1;
    }
    if (text === "" && char !== "{") return "";
    const [, low = "", comma, high = ""] = /^\{(\d+)(?:(,)(\d*))?\}$/.exec(text) ?? [];
    if (char === "{" && low === "") refuse(`the repetition "${text || "{"}"`);
    if (high !== "" && Number(high) < Number(low)) refuse(`the repetition "${text}", which ends below its beginning`);
    const times = Math.max(1, Number(low), Number(high));
    const within = varying - before.varying;
    const isEndless = char === "*" || char === "+" || (comma !== undefined && high === "");
    const isMarked = marks > before.marks;
    const factor = isEndless ? (isMarked ? markedLoopFactor : loopFactor) : 1;
    const mayVary = char !== "{" || (comma !== undefined && high !== low);
    const own = mayVary && !(isEndless && within > 0) ? 1 : 0;
    varying = before.varying + within * times * factor + own;
    adjacent = before.adjacent + within * (isMarked ? 1 : times) * factor + own;
    if (char !== "+" && !(Number(low) > 0)) marks = before.marks;
    if (varying > maxVarying) refuse(`more than ${maxVarying} repetitions of varying length`);
    if (times > maxTimes) refuse(`the repetition "${text}" (${maxTimes} at most)`);
    if (char === "{") counted += times;
    if (counted > maxCounted) refuse(`repetitions of more than ${maxCounted} times in all`);
    // A lazy repetition matches the same texts.
    if (inner[at] === "?") at++;
    if (inner[at] === "+") refuse("a possessive repetition");
    return text;
  };

  const expression = alternatives();
  if (at < inner.length) refuse("a closing parenthesis without its opening one");
  return { expression: `(${expression})`, startsAnchored, endsAnchored };
}
