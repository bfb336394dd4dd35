import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { constraintProblem, maxExpandedParts } from "../../proto/constraint-size.ts";
import { grammarSize } from "../../proto/grammar-size.ts";
import { regexSize } from "../../proto/regex-size.ts";
import { parseGbnf } from "../../runtime/llama/grammar/gbnf-rules.ts";
import { GrammarCompiler } from "../../runtime/llama/grammar/grammar-compiler.ts";
import { GrammarGuard } from "../../runtime/llama/grammar/grammar-guard.ts";
import { UnsupportedConstraint } from "../../runtime/llama/grammar/grammar-rules.ts";
import { jsonSchemaGrammar } from "../../runtime/llama/grammar/json-schema.ts";
import type { Constraint } from "../../runtime/server/text-engine.ts";
import { hasModel, type RuntimeProcess, startRuntime } from "../e2e/runtime/runtime-process.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { isNightly } from "../fakes/nightly.ts";
import { bombs, regexBombs, schemaBomb } from "../fakes/schema-bombs.ts";

const model = "HuggingFaceTB/SmolLM2-135M-Instruct";
const messages = [{ role: "user", content: "Reply with [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[" }];
const schemaFormat = (schema: object) => ({ type: "json_schema", json_schema: { name: "bomb", schema } });
const answered = [200, 400];
const present = () => new AbortController().signal;

describe.skipIf(!hasModel("a format that expands without bound does not stop a model server"))(
  "a model server that is sent format bombs",
  () => {
    let runtime: RuntimeProcess;
    beforeAll(async () => {
      runtime = await startRuntime({
        STOKER_CHAT_TEMPLATE_FILE: join(import.meta.dirname, "../e2e/runtime/hermes.jinja"),
      });
    }, 60_000);
    afterAll(() => runtime.stop());

    const ask = (fields: object) =>
      runtime.post("/v1/chat/completions", { model, messages, temperature: 0, max_tokens: 48, ...fields });

    it("refuses or answers each one and serves other requests all the time", async () => {
      const formats = [
        ...Object.values(bombs).map(schemaFormat),
        ...Object.values(regexBombs).map((regex) => ({ type: "regex", regex })),
      ];
      const tools = Object.values(bombs).map((parameters) => ({
        tools: [{ type: "function", function: { name: "bomb", parameters } }],
        tool_choice: "required",
      }));
      const requests = [...formats.map((response_format) => ({ response_format })), ...tools];
      for (const request of requests) {
        const [{ status, body }, health] = await Promise.all([ask(request), runtime.get("/health")]);
        expect({ request: JSON.stringify(request).slice(0, 200), status, body }).toMatchObject({
          status: expect.toSatisfy((code: number) => answered.includes(code)),
        });
        expect(health.status).toBe(200);
      }
      expect(await ask({ response_format: { type: "json_object" } })).toMatchObject({ status: 200 });
      expect(runtime.child.exitCode).toBeNull();
    }, 60_000);

    it("names the limit and the remedy", async () => {
      const { status, body } = await ask({ response_format: schemaFormat(bombs["anyOf of 60 levels"] as object) });
      expect([status, body.error.code, body.error.param]).toEqual([400, "format_too_large", "response_format"]);
      expect(body.error.message).toMatch(/more than 50000 parts.*Simplify/);
    });
  },
);

/** CPU time of the process: other suites may run beside this one. */
function cpuMsOf(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

describe("a gateway that is sent format bombs", () => {
  let edge: Edge;
  beforeAll(async () => {
    edge = await startEdge();
  });
  afterAll(() => edge.close());
  const bomb = schemaFormat(bombs["anyOf of 60 levels"] as object);
  const tool = { type: "function", function: { name: "f", parameters: bombs["allOf"] } };

  it.each([
    ["a schema", "/v1/chat/completions", chat({ response_format: bomb }), "response_format"],
    ["a tool", "/v1/chat/completions", chat({ tools: [tool] }), "tools"],
    ["a native request", "/v1/inference/org/model", { input: "x", response_format: bomb }, "response_format"],
  ])("refuses %s without asking any engine", async (_name, path, body, param) => {
    const answer = await edge.post(path, body);
    expect(answer.status).toBe(400);
    expect(JSON.stringify(await answer.json())).toMatch(/more than 50000 parts/);
    if (path.includes("chat")) {
      const again = await (await edge.post(path, body)).json();
      expect(again).toMatchObject({ error: { code: "format_too_large", param } });
    }
    expect(edge.agent.asked).toEqual([]);
  });
});

describe("a format of a type that nobody measures", () => {
  it("is refused in native requests as in chats", async () => {
    const structures = [{ begin: "<a>", schema: bombs["anyOf of 60 levels"], end: "</a>" }];
    const format = { type: "structural_tag", structures, triggers: ["<a"] };
    const edge = await startEdge();
    const bodies = [
      ["/v1/chat/completions", chat({ response_format: format })],
      ["/v1/inference/org/model", { input: "x", response_format: format }],
    ] as const;
    for (const [path, body] of bodies) expect((await edge.post(path, body)).status).toBe(422);
    expect(edge.agent.asked).toEqual([]);
    await edge.close();
  });
});

describe("the expanded size of a format", () => {
  const sizeOf = (schema: object) => constraintProblem({ response_format: schemaFormat(schema) });
  const expanding = Object.keys(bombs).filter((name) => !name.startsWith("recursion"));

  it.each(expanding)("refuses %s", (name) => {
    expect(sizeOf(bombs[name] as object)).toMatchObject({ param: "response_format" });
    const tools = [{ type: "function", function: { name: "f", parameters: bombs[name] } }];
    expect(constraintProblem({ tools })).toMatchObject({ param: "tools" });
  });

  const many = <T>(count: number, item: (i: number) => T) => Array.from({ length: count }, (_, i) => item(i));
  const levels = (count: number, inner: unknown) =>
    many(count, () => 0).reduce<unknown>((below) => [below], inner) as object;
  it.each<[name: string, schema: object]>([
    ["a chain that doubles", schemaBomb(200, (next) => ({ anyOf: [next, next] }))],
    [
      "many spellings of one reference",
      { anyOf: many(8_000, (i) => ({ $ref: `#${i}/$defs/d` })), $defs: { d: { anyOf: many(20_000, () => ({})) } } },
    ],
    [
      "references to every level above one large list",
      {
        allOf: many(200, (i) => ({ $ref: `#/x${"/0".repeat(i)}` })),
        x: levels(
          200,
          many(40_000, () => ({})),
        ),
      },
    ],
    [
      "many spellings of one long pattern",
      { anyOf: many(8_000, (i) => ({ $ref: `#${i}/$defs/d` })), $defs: { d: { pattern: `[${"a".repeat(40_000)}]` } } },
    ],
    ["a pattern of counts that add nothing", { pattern: `a${"{1}".repeat(500_000)}` }],
    [
      "many references of many steps",
      { anyOf: many(9_000, () => ({ $ref: `#/x${"/0".repeat(200)}` })), x: levels(201, {}) },
    ],
    ["a reference of millions of steps", { anyOf: many(40, (i) => ({ $ref: `#${i}${"/".repeat(200_000)}` })) }],
  ])("is measured without delay: %s", (_name, schema) => {
    expect(cpuMsOf(() => sizeOf(schema))).toBeLessThan(500);
  });

  it("counts the schema that some engines read beside json_object", () => {
    const format = { type: "json_object", schema: bombs["oneOf"] };
    expect(constraintProblem({ response_format: format })).toMatchObject({ param: "response_format" });
  });

  it.each(["repeated counts beyond every number", "counts with leading zeros"])("refuses a pattern of %s", (name) => {
    expect(constraintProblem({ response_format: { type: "regex", regex: regexBombs[name] } })).toBeDefined();
  });

  it("refuses nesting beyond 1,000 levels in whatever order its definitions are measured", () => {
    const inner = (i: number) => (i === 0 ? { type: "string" } : { $ref: `#/$defs/e${i - 1}` });
    const $defs = Object.fromEntries(
      many(12, (i) => [`e${i}`, many(100, () => 0).reduce<object>((below) => ({ not: below }), inner(i))] as const),
    );
    const shallowFirst = { allOf: many(12, (i) => ({ $ref: `#/$defs/e${i}` })), $defs };
    expect(sizeOf(shallowFirst)?.message).toMatch(/at most 1000 levels/);
  });

  it("takes a schema of almost 50,000 parts", () => {
    expect(sizeOf({ anyOf: many(24_900, () => ({ type: "string" })) })).toBeUndefined();
    expect(sizeOf({ anyOf: many(25_100, () => ({ type: "string" })) })).toBeDefined();
  });

  it("takes a schema that shares and repeats its definitions as generators do", () => {
    const address = {
      type: "object",
      properties: { street: { type: "string" }, zip: { type: "string", maxLength: 10 } },
    };
    const person = {
      type: "object",
      properties: {
        home: { $ref: "#/$defs/address" },
        work: { $ref: "#/$defs/address" },
        boss: { $ref: "#/$defs/person" },
      },
    };
    const schema = { type: "array", items: { $ref: "#/$defs/person" }, maxItems: 500, $defs: { address, person } };
    expect(sizeOf(schema)).toBeUndefined();
  });

  it("multiplies nested repetitions of a pattern", () => {
    expect(regexSize("[a-z]{3}-\\d{4}")).toBe(8);
    expect(regexSize("((ab){10}c){20}")).toBeGreaterThan(400);
    expect(regexSize("(((a{90}){90}){90}){90}")).toBeGreaterThan(maxExpandedParts);
  });

  it.each([
    ["lazy counts", "(?:(?:a{900})?{900})?{900}"],
    ["loops that are counted", "((a{900})+{900})*{900}"],
    ["a count of nothing", `{${"9".repeat(400)}}((a{900}){900}){900}`],
  ])("refuses a pattern of %s", (_name, regex) => {
    expect(constraintProblem({ response_format: { type: "regex", regex } })).toBeDefined();
  });

  it("measures a choice by the length of its texts", () => {
    const choose = (...choice: string[]) => constraintProblem({ response_format: { type: "choice", choice } });
    expect(choose("f(x){9999}", "((a{99}){99}){99}", "[")).toBeUndefined();
    expect(choose("x".repeat(49_000))).toBeUndefined();
    expect(choose("x".repeat(30_000), "x".repeat(30_000))).toMatchObject({ param: "response_format" });
  });
});

describe("the expanded size of a grammar", () => {
  const problemOf = (grammar: string) => constraintProblem({ response_format: { type: "grammar", grammar } });
  const nested = '(("a"{1,9999}){1,9999}){1,9999}';
  const lines = (count: number, line: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => line(i)).join("\n");

  it.each<[name: string, grammar: string]>([
    ["a text with a bracket before repetitions", `root ::= "[" ${nested}`],
    ["a text with a quote before repetitions", String.raw`root ::= "\"" ${nested} "]"`],
    ["a class with a quote before repetitions", `root ::= ["] ${nested} ["]`],
    ["an empty class before repetitions", `root ::= [] ${nested} "]"`],
    ["a comment with a quote before repetitions", `# "\nroot ::= ${nested} # "`],
    ["repetitions behind spaces and comments", 'root ::= ("a" { 1 , 9999 } ) # x\n {1, # y\n 9999}'],
    ["a count beyond every number", `root ::= "" {${"9".repeat(400)}} ${nested}`],
    ["repeated rules", 'root ::= a{1,999}\na ::= b{1,999}\nb ::= "x"{1,999}'],
    ["repeated rules between dots", 'root ::= a.a{1,999}\na ::= b.b{1,999}\nb ::= "x"{1,999}'],
    ["rules that double", lines(60, (i) => `a${i} ::= a${i + 1} a${i + 1}`)],
    ["a repetition of a recursive rule", 'root ::= "x" root{0,99} | ""'],
    ["a repetition of rules that lead to each other", 'root ::= "[" (a ","){1,9} "]"\na ::= root | "x"'],
    ["a chain of thousands of rules", lines(4_000, (i) => `a${i} ::= a${i + 1}`)],
    ["Lark: nested repetitions", 'start: (("a"~1..9999)~1..9999)~1..9999'],
    ["Lark: repetitions in an optional group", `start: [${nested}]`],
    ["Lark: repeated rules", "start: a~999\n?a.2: b{999}\nb[lazy]: /x{999}/"],
    ["Lark: a text with a comment mark", `start: "//" ${nested}`],
    ["Lark: a pattern with a quote", `start: /"/ ${nested} /"/`],
    ["Lark: a quote in quotes", `start: '"' ${nested} '"'`],
    ["Lark: an assignment in a comment", `start: [${nested}] // ::=`],
    ["Lark: a schema", `start: %json ${JSON.stringify(bombs["anyOf of 60 levels"])}`],
    ["Lark: a schema without an end", 'start: %json {"a": '],
  ])("is refused: %s", (_name, grammar) => {
    const message = expect.stringMatching(/50000 parts/);
    expect(problemOf(grammar)).toMatchObject({ param: "response_format", message });
  });

  it.each<[name: string, grammar: string]>([
    [
      "JSON",
      String.raw`root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
# Spaces: "(
ws ::= | " " | "\n" [ \t]{0,20}`,
    ],
    [
      "SQL in Lark",
      `?start: select
select: "SELECT"i columns "FROM"i table [where] -> select
columns: column ("," column)~0..20
column: NAME // "(
table: NAME
where: "WHERE"i test (("AND"i | "OR"i) test)*
test: column ("=" | "<" | ">") (NUMBER | ESCAPED_STRING)
NAME.2: /[a-z_][a-z0-9_]{0,62}/i
%import common.NUMBER
%import common.ESCAPED_STRING
%ignore " "`,
    ],
    [
      "an expression of eight levels in Lark",
      `start: e0\n${lines(8, (i) => `?e${i}: e${i + 1} (/[-+*]/ e${i + 1})*`)}\n?e8: NAME | "(" e0 ")"\nNAME: /[a-z]+/`,
    ],
    ["a long text", `root ::= "${"x".repeat(40_000)}"`],
    ["repetitions in a text, a class and a comment", `root ::= "((a{999}){999})" [({9999}] # ${nested}`],
    ["a repeated rule", 'root ::= line{1,200}\nline ::= [a-z]{1,80} "\\n"'],
    ["a loop above a recursive rule", 'root ::= ("x" tree)* tree\ntree ::= "(" tree ")" | [0-9]{1,9}'],
    ["a schema in Lark", 'start: "x" %json {"type": "object", "properties": {"a": {"type": "string"}}} end\nend: "}"'],
  ])("is within the limit: %s", (_name, grammar) => {
    expect(problemOf(grammar)).toBeUndefined();
  });

  it("is at least the product of its nested counts, however they are written", () => {
    let seed = 11;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const pick = <T>(items: readonly T[]) => items[random(items.length)] as T;
    for (let round = 0; round < 500; round++) {
      const rules: string[] = [];
      let product = 1;
      let body = pick(['"a"', String.raw`[^\]]`, String.raw`"\""`, '"[" "("']);
      for (let level = 1 + random(5); level > 0; level--) {
        const times = 2 + random(40);
        const space = pick(["", " ", "\t", ' # {1} ( "\n']);
        product *= times;
        body = `(${body})${space}${pick([`{${times}}`, `{0, ${times}}`, `{${times},}`])}${pick(["", "?", ' "{"'])}`;
        if (random(2) === 0) {
          rules.push(`r${level} ::= ${body}`);
          body = `r${level}`;
        }
      }
      const grammar = [`root ::= ${pick(['"["', '"#"', "[#(]", ""])} ${body}`, ...rules].join("\n");
      const size = grammarSize(grammar, () => 1);
      expect({ grammar, isCounted: size >= product }).toEqual({ grammar, isCounted: true });
    }
  });

  it.each([
    ["braces", `root ::= ${"{".repeat(49_000)}`],
    ["open groups", `root ::= ${"(".repeat(49_000)}`],
    ["heads without an end", `start: ${"a[".repeat(24_000)}`],
    ["spaces in a count", `root ::= "a"{${" ".repeat(49_000)}`],
    ["a text without an end", `root ::= "${"\\a".repeat(24_000)}`],
    ["many rules", lines(4_000, (i) => `a${i} ::= a0`)],
    ["many pieces of one name", `root ::= ${"a.".repeat(24_000)}\na ::= "x"`],
  ])("is measured without delay: %s", (_name, grammar) => {
    expect(cpuMsOf(() => problemOf(grammar))).toBeLessThan(500);
  });
});

describe("the guard beside a constrained output", () => {
  it("ends an output whose next characters would double what is open", () => {
    const guard = new GrammarGuard(parseGbnf(jsonSchemaGrammar(bombs["recursion through objects"])));
    const levels = () => {
      for (let i = 0; i < 30; i++) guard.push('{"a":');
    };
    expect(levels).toThrow(/more than 2000 alternatives are open/);
  });

  it("follows a long ordinary output", () => {
    const schema = { type: "array", items: { type: "object", properties: { name: { type: "string" }, of: {} } } };
    const guard = new GrammarGuard(parseGbnf(jsonSchemaGrammar(schema)));
    const text = JSON.stringify(Array.from({ length: 2_000 }, (_, i) => ({ name: `item ${i}`, of: { i: [i, [i]] } })));
    for (let at = 0; at < text.length; at += 8) guard.push(text.slice(at, at + 8));
    expect(guard.openCount).toBe(1);
  });
});

describe("the thread that compiles formats", () => {
  const compilers: GrammarCompiler[] = [];
  const compiler = (deadlineMs?: number) => {
    const made = new GrammarCompiler(deadlineMs);
    compilers.push(made);
    return made;
  };
  afterAll(() => Promise.all(compilers.map((one) => one.close())));

  it("is terminated at its deadline and replaced for the next request", async () => {
    const slow = compiler(0);
    const properties = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`p${i}`, { type: "string" }]));
    const long: Constraint = { kind: "json-schema", schema: { type: "object", properties } };
    await expect(slow.compile(long, present())).rejects.toThrow(/longer than 0 s; simplify/);
    await expect(slow.compile(long, present())).rejects.toThrow(UnsupportedConstraint);
  });

  it("refuses a random recursive schema or bounds what it leaves open", async () => {
    const shared = compiler();
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % below;
    };
    const randomSchema = (depth: number): object => {
      const next = () => (depth > 3 || random(3) === 0 ? { $ref: `#/$defs/d${random(4)}` } : randomSchema(depth + 1));
      switch (random(6)) {
        case 0:
          return { anyOf: [next(), next()] };
        case 1:
          return { type: "array", prefixItems: [next(), next()] };
        case 2:
          return { type: "object", properties: { a: next(), b: next() }, required: ["a"] };
        case 3:
          return { type: "array", items: next(), maxItems: random(9) };
        case 4:
          return { type: "string", pattern: "(a|b)*c{0,9}" };
        default:
          return { const: random(9) };
      }
    };
    const outcomes = { compiled: 0, refused: 0 };
    for (let i = 0; i < (isNightly ? 20_000 : 150); i++) {
      const $defs = Object.fromEntries(["d0", "d1", "d2", "d3"].map((name) => [name, randomSchema(0)]));
      const compiled = await shared
        .compile({ kind: "json-schema", schema: { $ref: "#/$defs/d0", $defs } }, present())
        .catch((error: unknown) => error);
      // The deadline is no outcome of any: each is decided by counting.
      expect(compiled instanceof Error ? compiled.message : "").not.toMatch(/longer than/);
      if (compiled instanceof UnsupportedConstraint) outcomes.refused += 1;
      else {
        expect(compiled).toHaveProperty("gbnf");
        outcomes.compiled += 1;
      }
    }
    expect(outcomes.compiled).toBeGreaterThan(10);
    expect(outcomes.refused).toBeGreaterThan(10);
  }, 600_000);
});
