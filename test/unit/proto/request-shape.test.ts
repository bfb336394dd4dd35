import { describe, expect, it } from "vitest";
import { shapeOf } from "../../../proto/request-shape.ts";

const shape = (body: object) => shapeOf(Buffer.from(JSON.stringify(body)));

describe("the shape of a request", () => {
  it("has no format that every client may send, so that one client's crashes refuse no other's requests", () => {
    for (const response_format of [{ type: "json_object" }, { type: "text" }])
      expect(shape({ messages: ["a"], response_format }).format).toBeUndefined();
    expect(shape({ messages: ["a"] }).format).toBeUndefined();
  });

  it("has the format of a schema or of tools, whatever the prompt is", () => {
    const response_format = { type: "json_schema", json_schema: { schema: { type: "object" } } };
    const { format } = shape({ messages: ["a"], response_format });
    expect(format).toBeDefined();
    expect(shape({ messages: ["b"], response_format }).format).toBe(format);
    expect(shape({ messages: ["a"], tools: [{ function: { name: "f" } }] }).format).toBeDefined();
  });

  it("differs by the format, also where that is no client's own", () => {
    const plain = shape({ messages: ["a"] });
    expect(shape({ messages: ["a"], response_format: { type: "json_object" } }).whole).not.toBe(plain.whole);
    expect(shape({ messages: ["a"], seed: 7 }).whole).toBe(plain.whole);
  });
});
