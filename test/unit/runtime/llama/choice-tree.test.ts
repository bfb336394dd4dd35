import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { choiceOf } from "../../../../runtime/llama/grammar/choice-tree.ts";
import { jsonSchemaGrammar } from "../../../../runtime/llama/grammar/json-schema.ts";
import { regexToGbnf } from "../../../../runtime/llama/grammar/regex.ts";

const letters = ["a", "b", "😀"];
/** GBNF without rule names reads as a regular expression once quotes and spaces are gone. */
const asRegex = (gbnf: string) => new RegExp(`^(?:${gbnf.replaceAll('"', "").replaceAll(" ", "")})$`, "u");
/** All texts of up to `length` letters. */
const texts = (length: number): string[] =>
  length === 0 ? [""] : ["", ...texts(length - 1).flatMap((text) => letters.map((letter) => letter + text))];
const values = fc.array(fc.array(fc.constantFrom(...letters), { maxLength: 5 }), { minLength: 1, maxLength: 12 });

/** Whether two alternatives beside each other begin with the same letter, at any depth. */
function branchesAlike(gbnf: string): boolean {
  const open: Set<string>[] = [new Set()];
  let begins = true;
  for (const sign of gbnf.replaceAll('"', "").replaceAll(" ", "")) {
    if (sign === "(") open.push(new Set());
    else if (sign === ")") open.pop();
    else if (begins && open.at(-1)?.has(sign)) return true;
    else if (begins) open.at(-1)?.add(sign);
    begins = sign === "(" || sign === "|";
  }
  return false;
}

describe("one of many values", () => {
  it("is the same language as the values side by side, and no two branches begin alike", () => {
    const all = texts(5);
    fc.assert(
      fc.property(values, fc.boolean(), (rows, isJoined) => {
        const gbnf = choiceOf(
          rows.map((row) => (isJoined ? row : row.map((letter) => `"${letter}"`))),
          isJoined ? (parts) => `"${parts.join("")}"` : undefined,
        );
        const among = new Set(rows.map((row) => row.join("")));
        const pattern = asRegex(gbnf);
        expect(all.filter((text) => pattern.test(text) !== among.has(text))).toEqual([]);
        expect(branchesAlike(gbnf)).toBe(false);
      }),
    );
  });

  it("writes the common beginnings of an enumeration, of labelled constants and of a regular expression once", () => {
    const tree = String.raw`"\"r" ("ed\"" | "o" ("t\"" | "se\""))`;
    expect(jsonSchemaGrammar({ enum: ["red", "rot", "rose", "red"] })).toContain(tree);
    const labelled = ["red", "rot", "rose"].map((value) => ({ const: value, title: `the ${value}` }));
    expect(jsonSchemaGrammar({ oneOf: labelled })).toContain(tree);
    expect(regexToGbnf("red|re[ab]*|re|blue").expression).toBe('("r" "e" ("d" | [ab]*)? | "b" "l" "u" "e")');
    expect(regexToGbnf("(a|)b").expression).toBe('((("a")?) "b")');
  });
});
