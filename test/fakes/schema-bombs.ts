// Small requests whose formats expand to more than any model server can build.

/** `levels` definitions, each of twice the next. */
export function schemaBomb(levels: number, twice: (reference: object) => object): object {
  const definition = (i: number) => (i === levels ? { type: "string" } : twice({ $ref: `#/$defs/d${i + 1}` }));
  return {
    $ref: "#/$defs/d0",
    $defs: Object.fromEntries(Array.from({ length: levels + 1 }, (_, i) => [`d${i}`, definition(i)])),
  };
}

const recursive = (S: object): object => ({ $defs: { S }, $ref: "#/$defs/S" });
const S = { $ref: "#/$defs/S" };
const pair = (last: number) => ({ type: "array", prefixItems: [S, { const: last }] });
const object = (other: string) => ({
  type: "object",
  properties: { a: S, [other]: { type: "null" } },
  required: ["a", other],
});

/** A bomb below a property whose name is a keyword: as a keyword it would hold a value or definitions, not a schema. */
const below = (name: string) => ({
  type: "object",
  properties: { [name]: S },
  $defs: {
    ...(schemaBomb(60, (next) => ({ anyOf: [next, next] })) as { $defs: object }).$defs,
    S: { $ref: "#/$defs/d0" },
  },
});

export const bombs: Readonly<Record<string, object>> = {
  ...Object.fromEntries(
    [18, 40, 60, 200].map((levels) => [
      `anyOf of ${levels} levels`,
      schemaBomb(levels, (next) => ({ anyOf: [next, next] })),
    ]),
  ),
  oneOf: schemaBomb(40, (next) => ({ oneOf: [next, next] })),
  allOf: schemaBomb(40, (next) => ({ allOf: [next, next] })),
  properties: schemaBomb(40, (next) => ({ type: "object", properties: { a: next, b: next } })),
  patternProperties: schemaBomb(40, (next) => ({ type: "object", patternProperties: { "^a": next, "^b": next } })),
  "prefixItems after an optional part": schemaBomb(40, (next) => ({ anyOf: [next, { type: "array", items: next }] })),
  ...Object.fromEntries(
    ["const", "enum", "default", "examples", "$defs", "definitions", "minItems"].map((name) => [
      `a property named ${name}`,
      below(name),
    ]),
  ),
  "recursion without an end": recursive({ anyOf: [S, { type: "string" }] }),
  "recursion that doubles what is open": recursive({ anyOf: [pair(1), pair(2)] }),
  "recursion through objects": recursive({ anyOf: [object("b"), object("c"), { type: "string" }] }),
  "a pattern of nested repetitions": { type: "string", pattern: "((((a{1,90}b){1,90}c){1,90}d){1,90}e){1,90}" },
};

export const regexBombs: Readonly<Record<string, string>> = {
  "nested repetitions": "(((a{90}){90}){90}){90}",
  "alternatives of loops": `(${Array.from({ length: 60 }, (_, i) => `[a-z]*[a-z]*[a-z]*${i}`).join("|")})`,
  "repeated counts beyond every number": `a${"{9999999999}".repeat(40)}{1}`,
  "counts with leading zeros": `((a{${"0".repeat(60)}900}){${"0".repeat(60)}900})`,
  "adjacent loops": "a*".repeat(40),
  "deep groups": `${"(".repeat(3000)}a${")".repeat(3000)}`,
};
