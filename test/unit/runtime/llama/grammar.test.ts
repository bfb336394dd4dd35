import { describe, expect, it } from "vitest";
import { UnsupportedConstraint } from "../../../../runtime/llama/grammar/grammar-rules.ts";
import { integerRange } from "../../../../runtime/llama/grammar/integer-range.ts";
import { jsonSchemaGrammar } from "../../../../runtime/llama/grammar/json-schema.ts";
import { insideJson, regexToGbnf } from "../../../../runtime/llama/grammar/regex.ts";
import { callGrammar } from "../../../../runtime/llama/tools/call-grammar.ts";
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
    expect(refused({ type: "array", minItems: 5, maxItems: 2 })).toThrow(/maxItems below its minItems/);
    expect(refused({ type: "string", minLength: 5, maxLength: 2 })).toThrow(/maxLength below its minLength/);
  });

  it("refuses a part that is of another kind than it must be, instead of leaving it out", () => {
    const refused = (schema: object) => () => jsonSchemaGrammar(schema);
    expect(refused({ type: "string", pattern: 5 })).toThrow(/pattern that is no text/);
    expect(refused({ type: "integer", minimum: "5" })).toThrow(/"minimum" that is no number/);
    expect(refused({ type: "integer", maximum: Number.POSITIVE_INFINITY })).toThrow(/"maximum" that is no number/);
    expect(refused({ type: "integer", minimum: 10n ** 20n })).toThrow(/no integer lies between/);
    expect(refused({ type: "object", properties: "abc" })).toThrow(/\$\.properties in the schema must be an object/);
    expect(refused({ enum: [] })).toThrow(/must be a list that is not empty/);
    expect(refused({ type: ["constructor"] })).toThrow(UnsupportedConstraint);
    expect(refused({ $ref: "#/__proto__" })).toThrow(/not in it/);
    expect(refused({ $ref: "#/%" })).toThrow(/not in it/);
    expect(jsonSchemaGrammar({ type: "string", format: "constructor" })).toContain("root ::= string");
    expect(jsonSchemaGrammar({ type: "integer", exclusiveMinimum: 3, maximum: 5n })).toContain(integerRange(4n, 5n));
  });

  it("refuses more than the server can read or hold each token against", () => {
    const list = (length: number) => Array.from({ length }, (_, i) => `v${i}`);
    const record = (length: number, schema: object) => Object.fromEntries(list(length).map((name) => [name, schema]));
    const object = (properties: object) => () => jsonSchemaGrammar({ type: "object", properties });
    expect(object(record(6, { enum: list(200) }))).toThrow(/1000 values/);
    expect(object(record(5, { enum: list(200) }))).not.toThrow();
    expect(object(record(5000, { type: "string" }))).toThrow(/5000 parts/);
    expect(object(record(30, { type: "string", maxLength: 1900 }))).toThrow(/50000/);
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

it("holds an answer to a value that no double holds, digit by digit", () => {
  expect(jsonSchemaGrammar({ const: 2n ** 63n - 1n })).toContain('"9223372036854775807"');
  expect(jsonSchemaGrammar({ enum: [{ id: 2n ** 60n }] })).toContain(String.raw`"{\"id\":1152921504606846976}"`);
});

describe("properties with the names of a grammar's own rules", () => {
  it.each(["root", "value", "object", "array"])("leave %s to the grammar, whatever comes first", (name) => {
    const bounded = { type: "integer", minimum: 3, maximum: 7 };
    for (const properties of [
      { [name]: bounded, any: {} },
      { any: {}, [name]: bounded },
    ]) {
      const rules = jsonSchemaGrammar({ type: "object", properties }).split("\n");
      const bodies = new Map(rules.map((line) => line.split(" ::= ") as [string, string]));
      expect(bodies.size).toBe(rules.length);
      expect(bodies.get("root")).toBe("object-root");
      expect(bodies.get("value")).toMatch(/^object \| array \| /);
      expect([bodies.get("object")?.slice(0, 3), bodies.get("array")?.slice(0, 3)]).toEqual(['"{"', '"["']);
      expect([...bodies.values()]).toContain(integerRange(3n, 7n));
    }
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

  it.each([
    ["a repetition that ends below its beginning", "a{5,2}", /ends below/],
    ["a range that does", "[z-a]", /range z-a/],
    ["a range up to a class", "[a-\\d]", /range up to \\d/],
    ["a long repetition", "a{2001}", /2000 at most/],
    ["many of them", "a{2000}".repeat(6), /10000 times in all/],
    ["many that may be empty", ".*,".repeat(65), /64 repetitions of varying length/],
    ["one of them many times", "(a?){65}", /64 repetitions of varying length/],
    ["an alternative that is nothing, many times", "(a|){65}", /64 repetitions of varying length/],
    ["many side by side", "[a-z]*".repeat(17), /16 repetitions of varying length with no certain character/],
    ["many in turns", "([a-z]*|a)".repeat(17), /16 repetitions of varying length with no certain character/],
    ["loops in loops", "(((([a-z])+)+)+)+", /no certain character/],
    ["loops in loops of a character", `${"(".repeat(10)}a${")+".repeat(10)}`, /no certain character/],
    ["loops in loops that begin alike", "(a(a(a(a(a(aa*)*)*)*)*)*)*", /varying length/],
    ["a loop of many", `(${"[a-z]*".repeat(5)})*`, /no certain character/],
    ["alternatives that are all open", Array.from({ length: 1001 }, (_, i) => i).join("|"), /1000 alternatives/],
    ["alternatives in alternatives", `${"(a|".repeat(1000)}b${")".repeat(1000)}`, /1000 alternatives/],
    ["a long text", "a".repeat(10_001), /10000 characters/],
  ])("refuses what would end or stall llama.cpp: %s", (_, regex, words) => {
    expect(() => regexToGbnf(regex)).toThrow(words);
  });

  it.each([
    "\\w+(, \\w+)*",
    "[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+",
    "https?://[\\w-]+(\\.[\\w-]+)+(/[\\w-]*)*(\\?(\\w+=\\w*(&\\w+=\\w*)*)?)?",
    "([A-Z]\\w*( \\w+)*\\. ?)+",
    "\\[(\\[(\\d+(, \\d+)*)?\\](, )?)*\\]",
    "(\\s*\\w+\\s*,?)*",
    "(\\d+,){40}\\d+",
    "-?\\d+(\\.\\d+)?([eE][+-]?\\d+)?",
    "(a+)+",
  ])("takes what is commonly written: %s", (regex) => {
    expect(regexToGbnf(regex).expression).toMatch(/^\(.+\)$/);
  });

  it("keeps ranges, and a dash that makes none", () => {
    const written = (regex: string) => regexToGbnf(regex).expression;
    expect(written("[a-fx-z]")).toBe("([a-fx-z])");
    expect(written("[-a]")).toBe("([\\x2Da])");
    expect(written("[a-]")).toBe("([a\\x2D])");
    expect(written("[\\d-x]")).toBe("([0-9\\x2Dx])");
    expect(written("(ab?){20}c{3,3}d{1,40}")).toBe('(("a" "b"?){20} "c"{3,3} "d"{1,40})');
  });
});

describe("the grammar of tool calls", () => {
  it("holds one call to one tool, more only where allowed", () => {
    const tools = [{ name: "f", parameters: undefined }];
    expect(callGrammar(tools, 1, hermes.form)).toMatch(/^root ::= tool-call\n/);
    expect(callGrammar(tools, 4, hermes.form)).toContain("{0,3}");
  });
});
