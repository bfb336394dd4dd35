import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { compileAtFirstUse } from "../../../../../control-plane/http/core/lazy-validators.ts";

const schema = {
  type: "object",
  properties: {
    a: { type: "integer" },
    b: { type: "string", maxLength: 2 },
    list: { type: "array", items: { type: "string" } },
  },
};

function compiled() {
  const ajv = new Ajv({ verbose: true });
  compileAtFirstUse(ajv);
  return ajv.compile(schema);
}

describe("a validator", () => {
  it("lists all faults of a small value", () => {
    const validate = compiled();
    expect(validate({ a: "x", b: "long", list: ["x", 1, 2] })).toBe(false);
    expect(validate.errors?.map(({ instancePath }) => instancePath)).toEqual(["/a", "/b", "/list/1", "/list/2"]);
  });

  it("stops at the first fault of a value with more than 1,000 parts", () => {
    const validate = compiled();
    expect(validate({ a: "x", list: Array(1_000_000).fill(1) })).toBe(false);
    expect(validate.errors).toHaveLength(1);
  });

  it("accepts a valid value after an invalid one", () => {
    const validate = compiled();
    validate({ a: "x" });
    expect(validate({ a: 1 })).toBe(true);
    expect(validate.errors).toBeNull();
  });
});
