// The rules of one GBNF grammar while it is built; names are unique, equal bodies share one rule.
/** Start of the grammar, and the rules of any JSON value, which refer to each other by name. */
const ownNames = new Set(["root", "value", "object", "array"]);

export class GrammarRules {
  readonly #names = new Map<string, string>();
  readonly #bodies = new Map<string, string>();

  /** Name of a rule with this body. */
  add(hint: string, body: string): string {
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    const name = this.reserve(hint);
    this.define(name, body);
    this.#names.set(body, name);
    return name;
  }

  /** A name whose body comes later, for what refers to itself. */
  reserve(hint: string): string {
    const base = hint.replace(/[^a-zA-Z0-9]+/g, "-").replace(/^-+|-+$/g, "") || "rule";
    let name = base;
    for (let i = 2; ownNames.has(name) || this.#bodies.has(name); i++) name = `${base}-${i}`;
    this.#bodies.set(name, "");
    return name;
  }

  has(name: string): boolean {
    return this.#bodies.has(name);
  }

  define(name: string, body: string): void {
    this.#bodies.set(name, body);
  }

  /** The whole grammar; `root` is the expression that a text must match. */
  grammar(root: string): string {
    return [`root ::= ${root}`, ...[...this.#bodies].map(([name, body]) => `${name} ::= ${body}`)].join("\n");
  }
}

/** `text` as a GBNF literal. */
export function literal(text: string): string {
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t");
  return `"${escaped}"`;
}

/** The constraint cannot be expressed as a grammar: always reported, never ignored. */
export class UnsupportedConstraint extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UnsupportedConstraint";
  }
}
