// Regular expression -> GBNF expression for what both can say: literals, classes, groups, alternatives, repetition.
// Anything else (look-around, back references, word borders) is refused by name.
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

const classes: Readonly<Record<string, string>> = { d: "0-9", w: "a-zA-Z0-9_", s: " \\t\\n\\r" };
const controls: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", f: "\f", v: "\v" };

export interface Converted {
  readonly expression: string;
  readonly startsAnchored: boolean;
  readonly endsAnchored: boolean;
}

/** Throws UnsupportedConstraint. */
export function regexToGbnf(regex: string, dialect: Dialect = plainText): Converted {
  const startsAnchored = regex.startsWith("^");
  const endsAnchored = regex.endsWith("$") && !/(^|[^\\])(\\\\)*\\\$$/.test(regex);
  const inner = [...regex.slice(startsAnchored ? 1 : 0, endsAnchored ? -1 : undefined)];
  let at = 0;
  const refuse = (what: string): never => {
    throw new UnsupportedConstraint(`the regular expression uses ${what}, which a grammar cannot hold`);
  };

  const alternatives = (): string => {
    const branches = [sequence()];
    while (inner[at] === "|") {
      at++;
      branches.push(sequence());
    }
    return branches.join(" | ");
  };
  const sequence = (): string => {
    const parts: string[] = [];
    while (at < inner.length && inner[at] !== "|" && inner[at] !== ")") parts.push(atom() + quantifier());
    return parts.length > 0 ? parts.join(" ") : '""';
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
    for (let first = true; first || inner[at] !== "]"; first = false) {
      const char = inner[at++] ?? refuse("an open class");
      if (char === "-") members += first || inner[at] === "]" ? "\\x2D" : "-";
      else if (char !== "\\") members += classMember(char);
      else {
        const escaped = inner[at++] ?? refuse("a backslash at its end");
        members += classes[escaped] ?? classMember(escapedChar(escaped));
      }
    }
    at++;
    return isNegated ? `[^${members}${dialect.forbidden}]` : `[${members}]`;
  };
  const classMember = (char: string): string => {
    if (dialect.forbidden !== "" && dialect.char(char) !== literal(char))
      refuse(`"${char}" in a class of a JSON string`);
    return /[\]\\^\-[]/.test(char) || char < " "
      ? `\\x${(char.codePointAt(0) as number).toString(16).padStart(2, "0").toUpperCase()}`
      : char;
  };
  const quantifier = (): string => {
    const char = inner[at];
    let text = "";
    if (char === "*" || char === "+" || char === "?") text = inner[at++] as string;
    else if (char === "{") {
      const end = inner.indexOf("}", at);
      text = end < 0 ? "" : inner.slice(at, end + 1).join("");
      if (!/^\{\d+(,\d*)?\}$/.test(text)) refuse(`the repetition "${text || "{"}"`);
      at = end + 1;
    }
    // A lazy repetition matches the same texts.
    if (text !== "" && inner[at] === "?") at++;
    if (text !== "" && inner[at] === "+") refuse("a possessive repetition");
    return text;
  };

  const expression = alternatives();
  if (at < inner.length) refuse("a closing parenthesis without its opening one");
  return { expression: `(${expression})`, startsAnchored, endsAnchored };
}
