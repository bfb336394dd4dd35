// Size of the grammars that engines take: EBNF as of llama.cpp and XGrammar, and Lark. Pure. A part that only one engine reads counts
// for all of them.
import { capped, regexSize } from "./regex-size.ts";

/** Rules that may lead to one another without an end. Protects this reader. */
const maxDepth = 1000;
const tooLarge = capped(Number.POSITIVE_INFINITY);

/**
 * Returns the number of characters, classes and groups of the largest rule of `grammar`, once references and counted repetitions are
 * written out. A recursive reference counts once; a counted repetition of a recursive rule is too large for every limit, and so
 * is what cannot be read. `schemaSize`: size of a JSON Schema inside a grammar. Takes time linear in the length.
 */
export function grammarSize(grammar: string, schemaSize: (schema: unknown) => number): number {
  try {
    const rules = readRules(grammar, schemaSize);
    const measuring = new Measuring(rules);
    return [...rules.values()].reduce((max, rule) => Math.max(max, measuring.sizeOf(rule)), 0);
  } catch (error) {
    if (error instanceof Unmeasurable) return tooLarge;
    throw error;
  }
}

class Unmeasurable extends Error {}

type Part =
  | { readonly kind: "part" | "suffix"; readonly size: number }
  | { readonly kind: "count"; readonly times: number }
  | { readonly kind: "reference"; readonly name: string }
  | { readonly kind: "open" | "close" };

interface Rule {
  readonly parts: Part[];
  /** Order of the visits; undefined: not visited. */
  index?: number;
  /** Lowest index that this rule leads back to. */
  low: number;
  isOpen: boolean;
  isRecursive: boolean;
  size: number;
}

interface Token {
  readonly kind: "string" | "class" | "regex" | "schema" | "directive" | "name" | "sign";
  readonly text: string;
  /** Size of a schema. */
  readonly size?: number;
}

const string = String.raw`("(?:\\[\s\S]|[^"\\])*"?)`;
const ebnfToken = new RegExp(
  String.raw`\s+|#[^\r\n]*|${string}|(\[(?:\\[\s\S]|[^\]\\])*\]?)|([\w.-]+)|(::=|[\s\S])`,
  "y",
);
const larkToken = new RegExp(
  String.raw`\s+|(?:#|//)[^\n]*|->\s*\w+|${string}|('(?:\\[\s\S]|[^'\\])*'?)|(/(?:\\[\s\S]|[^/\\\n])+/)|(%\w+)|([\w\u0080-\uffff]+)|([\s\S])`,
  "y",
);

/** Kinds of the groups of those patterns, in order. Named groups take four times as long. */
const ebnfKinds = ["string", "class", "name", "sign"] as const;
const larkKinds = ["string", "string", "regex", "directive", "name", "sign"] as const;

/** vLLM decides by the same rule. */
const isLark = (grammar: string) => !grammar.split("\n").some((line) => line.split(/#|\/\//, 1)[0]?.includes("::="));

function tokensOf(grammar: string, isInLark: boolean, schemaSize: (schema: unknown) => number): readonly Token[] {
  const tokens: Token[] = [];
  const [token, kinds] = isInLark ? ([larkToken, larkKinds] as const) : ([ebnfToken, ebnfKinds] as const);
  token.lastIndex = 0;
  for (let found = token.exec(grammar); found; found = token.exec(grammar)) {
    const group = kinds.findIndex((_, i) => found?.[i + 1] !== undefined);
    const [kind, text] = [kinds[group], found[group + 1]];
    if (kind === undefined || text === undefined) continue;
    tokens.push({ kind, text });
    if (kind === "directive" && (text === "%json" || text === "%llguidance" || text === "%regex")) {
      const end = endOfJson(grammar, token.lastIndex);
      tokens.push({ kind: "schema", text: "", size: schemaSize(parsed(grammar.slice(token.lastIndex, end))) });
      token.lastIndex = end;
    }
  }
  return tokens;
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new Unmeasurable();
  }
}

/** Index behind the JSON object that begins at `start`. */
function endOfJson(text: string, start: number): number {
  const piece = /"(?:\\[\s\S]|[^"\\])*"?|[{}]|[^"{}]+/y;
  piece.lastIndex = start;
  let depth = 0;
  for (let found = piece.exec(text); found; found = piece.exec(text)) {
    if (found[0] === "{") depth += 1;
    else if (found[0] === "}" && --depth <= 0) return piece.lastIndex;
  }
  throw new Unmeasurable();
}

/** Parts by the name of their rule; those before any rule and those of directives are in one without a name. */
function readRules(grammar: string, schemaSize: (schema: unknown) => number): ReadonlyMap<string, Rule> {
  const isInLark = isLark(grammar);
  const tokens = tokensOf(grammar, isInLark, schemaSize);
  const rules = new Map<string, Rule>();
  const ruleOf = (name: string) => {
    const rule = rules.get(name) ?? { parts: [], low: 0, isOpen: false, isRecursive: false, size: 1 };
    rules.set(name, rule);
    return rule.parts;
  };
  let parts = ruleOf("");
  for (let at = 0; at < tokens.length; ) {
    const { kind, text, size = 1 } = tokens[at] as Token;
    const body = kind === "name" ? (isInLark ? larkBody : ebnfBody)(tokens, at) : undefined;
    if (body !== undefined) {
      parts = ruleOf(text);
      at = body;
      continue;
    }
    const count = kind === "sign" ? countAt(tokens, at) : undefined;
    if (count) {
      parts.push({ kind: "count", times: capped(count.times) });
      at = count.end;
      continue;
    }
    at += 1;
    if (kind === "name") parts.push({ kind: "reference", name: text });
    else if (kind === "string") parts.push({ kind: "part", size: Math.max(1, text.length - 2) });
    else if (kind === "regex") parts.push({ kind: "part", size: Math.max(1, regexSize(text.slice(1, -1))) });
    else if (kind === "directive" && endsRule.has(text)) parts = ruleOf("");
    else if (text === "(" || (isInLark && text === "[")) parts.push({ kind: "open" });
    else if (text === ")" || (isInLark && text === "]")) parts.push({ kind: "close" });
    else if (kind === "sign" && "?*+".includes(text)) parts.push({ kind: "suffix", size: 1 });
    // The body of a rule whose head was not recognised would count as part of another.
    else if (kind === "sign" && text === (isInLark ? ":" : "::=")) throw new Unmeasurable();
    else parts.push({ kind: "part", size });
  }
  return rules;
}

const endsRule: ReadonlySet<string> = new Set([
  "%import",
  "%ignore",
  "%declare",
  "%override",
  "%extend",
  "%llguidance",
]);

/** Index of the body of a rule whose name is at `at`; undefined: no rule begins there. */
const ebnfBody = (tokens: readonly Token[], at: number) => (tokens[at + 1]?.text === "::=" ? at + 2 : undefined);

/** As `ebnfBody`, with a priority (`name.2:`), attributes (`name[lazy]:`) or parameters (`name{a, b}:`). */
function larkBody(tokens: readonly Token[], at: number): number | undefined {
  let end = at + 1;
  if (tokens[end]?.text === ".") end += tokens[end + 1]?.text === "-" ? 3 : 2;
  const closing = tokens[end]?.text === "[" ? "]" : tokens[end]?.text === "{" ? "}" : undefined;
  if (closing) for (let i = 0; i < maxHeadTokens && tokens[end++]?.text !== closing; i++);
  return tokens[end]?.text === ":" ? end + 1 : undefined;
}
const maxHeadTokens = 50;

/** Reads `{2}`, `{2,}`, `{2,5}`, `{,5}`, `~2` and `~2..5`; undefined: there is no count at `at`. */
function countAt(tokens: readonly Token[], at: number): { readonly times: number; readonly end: number } | undefined {
  const textAt = (index: number) => tokens[index]?.text ?? "";
  const isNumber = (index: number) => /^\d+$/.test(textAt(index));
  if (textAt(at) === "~" && isNumber(at + 1)) {
    const isRange = textAt(at + 2) === "." && textAt(at + 3) === "." && isNumber(at + 4);
    const times = Math.max(Number(textAt(at + 1)), isRange ? Number(textAt(at + 4)) : 1);
    return { times, end: at + (isRange ? 5 : 2) };
  }
  if (textAt(at) !== "{") return undefined;
  let times = 1;
  let end = at + 1;
  for (; isNumber(end) || textAt(end) === ","; end++) if (isNumber(end)) times = Math.max(times, Number(textAt(end)));
  return textAt(end) === "}" ? { times, end: end + 1 } : undefined;
}

interface Sum {
  size: number;
  /** Whether a recursive rule is in it. */
  isRecursive: boolean;
}

/** Finds recursive rules as Tarjan's algorithm finds strongly connected components, and measures each rule once. */
class Measuring {
  readonly #rules: ReadonlyMap<string, Rule>;
  readonly #open: Rule[] = [];
  #visited = 0;

  constructor(rules: ReadonlyMap<string, Rule>) {
    this.#rules = rules;
  }

  sizeOf(rule: Rule): number {
    if (rule.index === undefined) this.#visit(rule, 0);
    return rule.size;
  }

  #visit(rule: Rule, depth: number): void {
    if (depth > maxDepth) throw new Unmeasurable();
    const index = this.#visited++;
    Object.assign(rule, { index, low: index, isOpen: true });
    this.#open.push(rule);
    for (const target of rule.parts.flatMap((part) => (part.kind === "reference" ? this.#targets(part.name) : []))) {
      if (target.index === undefined) {
        this.#visit(target, depth + 1);
        rule.low = Math.min(rule.low, target.low);
      } else if (target.isOpen) {
        rule.low = Math.min(rule.low, target.index);
        rule.isRecursive ||= target === rule;
      }
    }
    rule.size = this.#sum(rule.parts);
    if (rule.low !== index) return;
    const component = this.#open.splice(this.#open.lastIndexOf(rule));
    for (const member of component) {
      member.isOpen = false;
      member.isRecursive ||= component.length > 1;
    }
  }

  /** A dot is part of a name in XGrammar and any character in llama.cpp. */
  #targets(name: string): readonly Rule[] {
    const rule = this.#rules.get(name);
    if (rule) return [rule];
    return name.split(".").flatMap((piece) => this.#rules.get(piece) ?? []);
  }

  /** The rules that `parts` refer to are measured, or lead to the rule of these parts. */
  #sum(parts: readonly Part[]): number {
    const groups: Sum[] = [{ size: 1, isRecursive: false }];
    let last: Sum = { size: 1, isRecursive: false };
    const add = ({ size, isRecursive }: Sum) => {
      const group = groups.at(-1) as Sum;
      group.size = capped(group.size + size);
      group.isRecursive ||= isRecursive;
    };
    for (const part of parts) {
      if (part.kind === "open") groups.push({ size: 1, isRecursive: false });
      else if (part.kind === "suffix") add({ size: part.size, isRecursive: false });
      else if (part.kind === "count") {
        if (part.times > 1 && last.isRecursive) throw new Unmeasurable();
        const size = capped(last.size * Math.max(1, part.times));
        add({ size: size - last.size, isRecursive: false });
        last = { ...last, size };
      } else if (part.kind !== "close" || groups.length > 1) {
        last = part.kind === "close" ? (groups.pop() as Sum) : this.#one(part);
        add(last);
      }
    }
    return groups.reduce((sum, { size }) => capped(sum + size), 0);
  }

  #one(part: Part): Sum {
    if (part.kind === "part") return { size: part.size, isRecursive: false };
    const targets = part.kind === "reference" ? this.#targets(part.name) : [];
    // A rule that is being measured counts as one part.
    return {
      size: targets.reduce((sum, { size }) => capped(sum + size), targets.length === 1 ? 0 : 1),
      isRecursive: targets.some(({ isOpen, isRecursive }) => isOpen || isRecursive),
    };
  }
}
