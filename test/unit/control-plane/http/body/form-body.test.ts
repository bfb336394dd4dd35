import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { coerceFields, FormFile, readForm, writeForm } from "../../../../../control-plane/http/body/form-body.ts";

describe("a form", () => {
  it("is read as it was written, files byte for byte", async () => {
    const name = fc.stringMatching(/^[a-z][a-z0-9_ ]{0,20}$/);
    const file = fc
      .record({ filename: fc.stringMatching(/^[a-z][\w. -]{0,20}$/), bytes: fc.uint8Array({ maxLength: 3000 }) })
      .map(({ filename, bytes }) => new FormFile(filename, "audio/wav", Buffer.from(bytes)));
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.tuple(name, fc.oneof(fc.string(), file)), { selector: ([n]) => n }),
        async (given) => {
          const { contentType, bytes } = writeForm(given);
          expect(await readForm(bytes, contentType)).toEqual(Object.fromEntries(given));
        },
      ),
      { numRuns: 60 },
    );
  });

  it("gives a list where a name comes again or ends in brackets", async () => {
    const { contentType, bytes } = writeForm([
      ["a", ["1", "2"]],
      ["b[]", "3"],
      ["c", null],
      ["d", { e: 1 }],
    ]);
    expect(await readForm(bytes, contentType)).toEqual({ a: ["1", "2"], b: ["3"], d: '{"e":1}' });
  });

  it.each([
    ["without a boundary", "multipart/form-data", "x"],
    [
      "that ends in the middle of a part",
      "multipart/form-data; boundary=b",
      "--b\r\ncontent-disposition: form-data; name=a\r\n\r\nx",
    ],
  ])("%s is refused", async (_, contentType, body) => {
    await expect(readForm(Buffer.from(body), contentType)).rejects.toMatchObject({ code: "form_invalid" });
  });

  it("with a thousand parts is refused", async () => {
    const { contentType, bytes } = writeForm(Array.from({ length: 1000 }, (_, i) => [`n${i}`, "x"] as const));
    await expect(readForm(bytes, contentType)).rejects.toMatchObject({ code: "form_invalid" });
  });

  it("cannot be made to write another header", async () => {
    const { contentType, bytes } = writeForm([["a", new FormFile('x"\r\nevil: 1', "audio/wav", Buffer.from("y"))]]);
    const { a } = await readForm(bytes, contentType);
    expect((a as FormFile).bytes.toString()).toBe("y");
    expect(bytes.toString()).not.toContain("\r\nevil");
  });
});

it("values of a form become what their fields want, and nothing else", () => {
  const values: Record<string, unknown> = {
    n: "4",
    t: "0.5",
    b: "true",
    s: "12",
    l: "one",
    j: '["a"]',
    o: '{"a":1}',
    x: "4x",
  };
  coerceFields(values, {
    n: { type: ["integer", "null"] },
    t: { type: "number" },
    b: { type: "boolean" },
    s: { type: "string" },
    l: { type: ["array", "null"] },
    j: { type: "array" },
    o: { type: "object" },
    x: { type: "integer" },
    gone: { type: "integer" },
  });
  expect(values).toEqual({ n: 4, t: 0.5, b: true, s: "12", l: ["one"], j: ["a"], o: { a: 1 }, x: "4x" });
});

it.each([
  ["1e-05", 0.000_01],
  [".5", 0.5],
  ["+2", 2],
  ["2.", 2],
  ["-0.25", -0.25],
])("a number that some client prints as %s is one", (text, number) => {
  const values: Record<string, unknown> = { t: text };
  coerceFields(values, { t: { type: ["number", "null"] } });
  expect(values["t"]).toBe(number);
});

it.each(["", "0x10", "1e", "e5", "1_000", "Infinity", "NaN", " 1"])(
  "%j stays a text where a number is wanted",
  (text) => {
    const values: Record<string, unknown> = { t: text };
    coerceFields(values, { t: { type: "number" } });
    expect(values["t"]).toBe(text);
  },
);

it("a truth is read as any language writes it", () => {
  const values: Record<string, unknown> = { a: "True", b: "FALSE", c: "yes" };
  coerceFields(values, { a: { type: "boolean" }, b: { type: "boolean" }, c: { type: "boolean" } });
  expect(values).toEqual({ a: true, b: false, c: "yes" });
});
