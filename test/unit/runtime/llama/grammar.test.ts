import { describe, expect, it } from "vitest";
import { UnsupportedConstraint } from "../../../../runtime/llama/grammar/grammar-rules.ts";
import { integerRange } from "../../../../runtime/llama/grammar/integer-range.ts";
import { jsonSchemaGrammar } from "../../../../runtime/llama/grammar/json-schema.ts";
import { insideJson, regexToGbnf } from "../../../../runtime/llama/grammar/regex.ts";
import { hermes } from "../../../../runtime/llama/tools/hermes.ts";

/** GBNF without rule names reads as a regular expression once quotes and spaces are gone. */
const asRegex = (gbnf: string) => new RegExp(`^(${gbnf.replaceAll('"', "").replaceAll(" ", "")})$`);

describe("the grammar of an integer range", () => {
  it.each([
    [0n, 120n],
    [18n, 65n],
    [-15n, 7n],
    [-1000n, -37n],
    [99n, 1001n],
    [5n, 5n],
  ])("matches exactly the numbers from %i to %i", (min, max) => {
    const pattern = asRegex(integerRange(min, max));
    for (let n = -1100n; n <= 1100n; n++) expect([n, pattern.test(String(n))]).toEqual([n, n >= min && n <= max]);
  });

  it("refuses an empty range and takes open ones", () => {
    expect(() => integerRange(2n, 1n)).toThrow(RangeError);
    expect(asRegex(integerRange(3n, undefined)).test("123456")).toBe(true);
    expect(asRegex(integerRange(3n, undefined)).test("2")).toBe(false);
  });
});

describe("the grammar of a JSON schema", () => {
  it("refuses by name what it cannot hold", () => {
    const refused = (schema: object) => () => jsonSchemaGrammar(schema);
    expect(refused({ type: "object", properties: { a: { type: "number", minimum: 1 } } })).toThrow(
      /\$\.a uses "minimum"/,
    );
    expect(refused({ type: "object", minProperties: 1 })).toThrow(/minProperties/);
    expect(refused({ not: { type: "string" } })).toThrow(/"not"/);
    expect(refused({ $ref: "#/$defs/absent" })).toThrow(/absent/);
    expect(refused({ type: "strnig" })).toThrow(UnsupportedConstraint);
  });

  it("takes what schema generators commonly write", () => {
    const schema = {
      title: "Node",
      type: "object",
      $defs: {
        Node: {
          type: "object",
          properties: { next: { $ref: "#/$defs/Node" }, v: { type: "integer" } },
          required: ["v"],
        },
      },
      properties: {
        when: { type: "string", format: "date-time" },
        maybe: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
        either: { type: ["integer", "string"], maxLength: 3 },
        list: { type: "array", items: { $ref: "#/$defs/Node" }, minItems: 1, maxItems: 3 },
        code: { type: "string", pattern: "^[A-Z]{2}-\\d+$" },
      },
      required: ["when"],
      additionalProperties: false,
    };
    const grammar = jsonSchemaGrammar(schema);
    const names = new Set(grammar.split("\n").map((line) => line.split(" ::= ")[0]));
    const used = grammar.replace(/"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]/g, "").match(/[a-z][\w-]*/gi) ?? [];
    expect(used.filter((name) => !names.has(name))).toEqual([]);
  });
});

describe("a regular expression as a grammar", () => {
  it("keeps alternatives, classes and repetition", () => {
    expect(regexToGbnf("^(red|blue)-\\d{2,3}$").expression).toBe('(("r" "e" "d" | "b" "l" "u" "e") "-" [0-9]{2,3})');
  });

  it("escapes quotes as a JSON string shows them", () => {
    expect(regexToGbnf('"', insideJson).expression).toBe('("\\\\\\"")');
  });

  it.each(["(?=a)", "\\bword", "a(?<n>b)", "(a", "a)", "*a", "a++"])("refuses %s", (regex) => {
    expect(() => regexToGbnf(regex)).toThrow(UnsupportedConstraint);
  });
});

describe("the grammar of tool calls", () => {
  it("holds one call to one tool, more only where allowed", () => {
    const tools = [{ name: "f", parameters: undefined }];
    expect(hermes.grammar(tools, { maxCalls: 1 })).toMatch(/^root ::= tool-call\n/);
    expect(hermes.grammar(tools, { maxCalls: 4 })).toContain("{0,3}");
  });
});
