import { describe, expect, it } from "vitest";
import { parseExactJson, parseScanned } from "../../../proto/exact-json.ts";
import { type JsonScan, maxJsonDepth, scanJson } from "../../../proto/json-scan.ts";

const scan = (text: string) => scanJson(Buffer.from(text));
const longIn = (text: string) =>
  (scan(text) as JsonScan).longIntegers.map(([start, end]) => Buffer.from(text).toString("utf8", start, end));

describe("scanJson", () => {
  it("counts nesting outside of strings only", () => {
    expect(scan(`${"[".repeat(maxJsonDepth)}1${"]".repeat(maxJsonDepth)}`)).toMatchObject({ hasLoneSurrogate: false });
    expect(scan("[".repeat(maxJsonDepth + 1))).toBe("too_deep");
    expect(scan(`{"a":"${"[".repeat(1_000)}","b":"\\"${"{".repeat(1_000)}"}`)).toMatchObject({ longIntegers: [] });
    expect(scan(`["${"x".repeat(1_000)}\\"${"[".repeat(1_000)}"]`)).toMatchObject({ longIntegers: [] });
  });

  it.each([
    ["numbers", "7", 900_000, 790_000],
    ["lists", "[]", 410_000, 390_000],
    ["objects", "{}", 410_000, 390_000],
    ["short texts", '"a"', 67_000, 61_000],
    ["long texts", `"${"a".repeat(20)}"`, 410_000, 390_000],
    ["objects with a field", '{"a":1}', 16_000, 14_000],
    ["integers above 2^53", "1234567890123456789", 20_000, 18_000],
    ["null", "null", 900_000, 790_000],
    ["false", "false", 900_000, 790_000],
  ])("bounds the number of %s", (_, item, above, below) => {
    const list = (count: number) => `[${Array(count).fill(item).join()}]`;
    expect(scan(list(above))).toBe("too_complex");
    expect(scan(list(below))).toBeTypeOf("object");
  });

  it("bounds escapes, white space and digits", () => {
    expect(scan(`"${"\\n".repeat(5e6)}"`)).toBe("too_complex");
    expect(scan(`"${"\\n".repeat(2.9e6)}"`)).toBeTypeOf("object");
    expect(scan(" ".repeat(20e6))).toBe("too_complex");
    expect(scan("1".repeat(20e6))).toBe("too_complex");
  });

  it("finds integers of 16 digits and more, and no other number", () => {
    expect(longIn('{"seed":-12345678901234567,"b":[1234567890123456 ,12345678901234567.5]}')).toEqual([
      "-12345678901234567",
      "1234567890123456",
    ]);
    expect(longIn('{"a":"12345678901234567","b":1234567890123456e3,"c":123456789012345}')).toEqual([]);
    expect(longIn(`{"é":"${"é".repeat(300)}","c":12345678901234567}`)).toEqual(["12345678901234567"]);
  });

  it.each([
    ['"\\ud800"', true],
    ['"\\uDC00"', true],
    ['"\\ud800\\ud800\\udc00"', true],
    [`"${"x".repeat(5_000)}\\ud83d"`, true],
    ['"\\ud83d\\ude00"', false],
    ['"\\\\ud800"', false],
    ['"\\ud7ff\\ue000"', false],
    [`"${"x".repeat(5_000)}\\ud83d\\ude00${"y".repeat(5_000)}"`, false],
  ])("finds half of a surrogate pair in %s: %s", (text, isLone) => {
    expect(scan(text)).toMatchObject({ hasLoneSurrogate: isLone });
  });

  it.each(["xxxx", ",,,,", "]", '{"a":tru', '"no end', "", "\u00e9", "[1,,2]"])("leaves %j to the parser", (text) => {
    expect(scan(text)).toBeTypeOf("object");
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
  });
});

describe("parseScanned", () => {
  const long = "é".repeat(300_000);
  it.each([
    ["a long text", JSON.stringify({ a: [long, "b"], c: long })],
    ["a long text with escapes", JSON.stringify({ a: `${long}"\n` })],
    ["a long name", `{${JSON.stringify(long)} : 1, "b": ${JSON.stringify(long)}}`],
    ["nothing but a long text", JSON.stringify(long)],
    ["a field named __proto__", `{"__proto__":${JSON.stringify(long)}}`],
  ])("reads %s as JSON.parse does", (_, text) => {
    const bytes = Buffer.from(text);
    const value = parseScanned(bytes, scanJson(bytes) as JsonScan);
    expect(JSON.stringify(value) === JSON.stringify(JSON.parse(text))).toBe(true);
  });

  it.each(["\n", "\r", "\t", "\0"])("refuses %j in a long text, as JSON.parse does", (control) => {
    const bytes = Buffer.from(`["${"x".repeat(300_000)}${control}"]`);
    expect(() => parseScanned(bytes, scanJson(bytes) as JsonScan)).toThrow(SyntaxError);
  });

  it("keeps exact integers beside long texts", () => {
    const bytes = Buffer.from(`{"a":"${long}","seed":12345678901234567890,"b":"${long}"}`);
    const value = parseExactJson(bytes, scanJson(bytes) as JsonScan, BigInt) as Record<string, unknown>;
    expect([value["seed"], value["a"] === long, value["b"] === long]).toEqual([12345678901234567890n, true, true]);
  });
});
