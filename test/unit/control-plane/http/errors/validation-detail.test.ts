import { describe, expect, it } from "vitest";
import { detailOf, type SchemaError } from "../../../../../control-plane/http/errors/validation-detail.ts";

const error = (change: Partial<SchemaError>): SchemaError => ({
  keyword: "type",
  instancePath: "",
  params: {},
  ...change,
});

describe("detail[]", () => {
  it("spells every step of the place as a string, indexes and slashes included", () => {
    const [detail] = detailOf(
      [error({ keyword: "maximum", instancePath: "/a~1b/0/c~0d", params: { limit: 4 } })],
      "body",
    );
    expect(detail).toEqual({
      loc: ["body", "a/b", "0", "c~d"],
      msg: "Input should be less than or equal to 4",
      type: "less_than_equal",
    });
  });

  it("names the end of a path as the published description does", () => {
    const invalid = [error({ keyword: "maxLength", instancePath: "/*", params: { limit: 4 } })];
    expect(detailOf(invalid, "path")[0]?.loc).toEqual(["path", "model_name"]);
    expect(detailOf(invalid, "body")[0]?.loc).toEqual(["body", "*"]);
  });

  it("prints a bound beyond 2^53 to its last digit", () => {
    const msgOf = (keyword: string, limit: number) => detailOf([error({ keyword, params: { limit } })], "body")[0]?.msg;
    expect(msgOf("exclusiveMaximum", 2 ** 64)).toBe("Input should be less than 18446744073709551616");
    expect(msgOf("minimum", -(2 ** 63))).toBe("Input should be greater than or equal to -9223372036854775808");
    expect(msgOf("maximum", 1.5)).toBe("Input should be less than or equal to 1.5");
  });

  it("speaks of the alternative that came furthest", () => {
    const errors = [
      error({ instancePath: "/stop", params: { type: "string" } }),
      error({ instancePath: "/stop/3", params: { type: "string" } }),
      error({ keyword: "anyOf", instancePath: "/stop" }),
    ];
    expect(detailOf(errors, "body")[0]?.loc).toEqual(["body", "stop", "3"]);
  });

  it("names every fault of the best alternative of a union", () => {
    const tool = "#/properties/tools/items/anyOf";
    const of = (alternative: number, keyword: string, instancePath: string, params: object) =>
      error({
        keyword,
        instancePath,
        params: { ...params },
        data: 50,
        schemaPath: `${tool}/${alternative}/x/${keyword}`,
      });
    const errors = [
      of(0, "type", "/tools/0", { type: "string" }),
      of(1, "type", "/tools/0/name", { type: "string" }),
      of(1, "maximum", "/tools/0/limit", { limit: 9 }),
      error({ keyword: "anyOf", instancePath: "/tools/0", schemaPath: tool }),
    ];
    expect(detailOf(errors, "body").map(({ loc, msg }) => [loc.slice(1).join("."), msg])).toEqual([
      ["tools.0.name", "Input should be a valid string"],
      ["tools.0.limit", "Input should be less than or equal to 9"],
    ]);
  });

  it("names the types of all alternatives where the value has none of them", () => {
    const errors = [
      error({ instancePath: "/stop", params: { type: ["string", "null"] }, data: 5 }),
      error({ instancePath: "/stop", params: { type: "array" }, data: 5 }),
      error({ keyword: "anyOf", instancePath: "/stop" }),
    ];
    expect(detailOf(errors, "body")).toEqual([
      { loc: ["body", "stop"], msg: "Input should be a valid string or a valid list", type: "string_type" },
    ]);
  });

  describe("of a choice of words or an object", () => {
    const union = "#/properties/tool_choice/anyOf";
    const of = (schemaPath: string, data: unknown, params: object) =>
      error({
        keyword: schemaPath.slice(schemaPath.lastIndexOf("/") + 1),
        instancePath: "/tool_choice",
        params: { ...params },
        data,
        schemaPath: `${union}${schemaPath}`,
      });
    const words = { allowedValues: ["none", "auto", null] };
    const detail = (...errors: readonly SchemaError[]) => detailOf(errors, "body");
    const whole = error({ keyword: "anyOf", instancePath: "/tool_choice", schemaPath: union });
    const loc = ["body", "tool_choice"];

    it("names the words and the object where the value is neither", () => {
      const errors = [
        of("/0/type", 5, { type: ["string", "null"] }),
        of("/0/enum", 5, words),
        of("/1/type", 5, { type: "object" }),
      ];
      expect(detail(...errors, whole)).toEqual([
        { loc, msg: "Input should be 'none' or 'auto', or an object", type: "enum" },
      ]);
    });

    it("names the words where it is another word", () => {
      const errors = [of("/0/enum", "x", words), of("/1/type", "x", { type: "object" })];
      expect(detail(...errors, whole)).toEqual([{ loc, msg: "Input should be 'none' or 'auto'", type: "enum" }]);
    });

    it("names the words, not their type, outside a union", () => {
      const path = { instancePath: "/tier", data: 5 };
      const errors = [
        error({ ...path, params: { type: "string" }, schemaPath: "#/properties/tier/type" }),
        error({ ...path, keyword: "enum", params: words, schemaPath: "#/properties/tier/enum" }),
      ];
      expect(detail(...errors)).toEqual([
        { loc: ["body", "tier"], msg: "Input should be 'none' or 'auto'", type: "enum" },
      ]);
    });
  });

  it("names every required field that is missing, and only those", () => {
    const missing = error({
      keyword: "required",
      params: { missingProperty: "a" },
      parentSchema: { required: ["a", "b", "c"] },
      data: { b: 1 },
    });
    expect(detailOf([missing], "query").map((one) => one.loc)).toEqual([
      ["query", "a"],
      ["query", "c"],
    ]);
  });

  it("names every fault with its own field", () => {
    const errors = [
      error({ instancePath: "/max_tokens", params: { type: "integer" }, data: "x" }),
      error({ instancePath: "/stop", params: { type: "string" } }),
      error({ instancePath: "/stop/0", params: { type: "string" }, data: 1 }),
      error({ keyword: "anyOf", instancePath: "/stop" }),
      error({ keyword: "maximum", instancePath: "/temperature", params: { limit: 2 } }),
    ];
    expect(detailOf(errors, "body").map(({ loc, type }) => [loc.slice(1).join("."), type])).toEqual([
      ["max_tokens", "int_type"],
      ["stop.0", "string_type"],
      ["temperature", "less_than_equal"],
    ]);
  });

  it("names a fault outside a union whose path only begins like it", () => {
    const errors = [
      error({ instancePath: "/stop_words", params: { type: "string" } }),
      error({ instancePath: "/stop", params: { type: "string" } }),
      error({ keyword: "anyOf", instancePath: "/stop" }),
    ];
    expect(detailOf(errors, "body").map(({ loc }) => loc[1])).toEqual(["stop_words", "stop"]);
  });

  it("names at most 20 faults", () => {
    const errors = Array.from({ length: 50 }, (_, n) => error({ instancePath: `/a/${n}`, params: { type: "string" } }));
    expect(detailOf(errors, "body")).toHaveLength(20);
  });

  it.each([
    ["integer", "body", "x", "int_type"],
    ["integer", "body", 1.5, "int_from_float"],
    ["integer", "query", "x", "int_parsing"],
    [["integer", "null"], "body", "x", "int_type"],
    ["boolean", "query", "x", "bool_parsing"],
    ["string", "body", 1, "string_type"],
    ["array", "body", 1, "list_type"],
    ["object", "body", 1, "dict_type"],
  ] as const)("a value that is no %j in the %s", (type, place, data, expected) => {
    expect(detailOf([error({ params: { type }, data })], place)[0]?.type).toBe(expected);
  });

  it("never quotes the value that was refused", () => {
    const found = detailOf(
      [error({ instancePath: "/prompt", params: { type: "string" }, data: { secret: "diary" } })],
      "body",
    );
    expect(JSON.stringify(found)).not.toContain("diary");
  });
});
