// GBNF of JSON's own parts. Space is bounded: a small model would else fill its budget with it.
import type { GrammarRules } from "./grammar-rules.ts";

/** Inside a string, escapes included. */
const character = '[^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt/] | "u" [0-9a-fA-F]{4})';

export const space = (rules: GrammarRules) => rules.add("ws", '| " " | "\\n" [ \\t]{0,20}');
export const char = (rules: GrammarRules) => rules.add("char", character);
export const string = (rules: GrammarRules) => rules.add("string", `"\\"" ${char(rules)}* "\\""`);
export const integer = (rules: GrammarRules) => rules.add("integer", '"-"? ("0" | [1-9] [0-9]{0,15})');
export const number = (rules: GrammarRules) =>
  rules.add("number", `${integer(rules)} ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`);
export const boolean = (rules: GrammarRules) => rules.add("boolean", '"true" | "false"');

export function object(rules: GrammarRules): string {
  value(rules);
  return "object";
}

export function value(rules: GrammarRules): string {
  const ws = space(rules);
  if (!rules.has("value")) {
    rules.define("value", "");
    rules.define(
      "object",
      `"{" ${ws} (${string(rules)} ":" ${ws} value ("," ${ws} ${string(rules)} ":" ${ws} value)*)? ${ws} "}"`,
    );
    rules.define("array", `"[" ${ws} (value ("," ${ws} value)*)? ${ws} "]"`);
    rules.define("value", `object | array | ${string(rules)} | ${number(rules)} | ${boolean(rules)} | "null"`);
  }
  return "value";
}
