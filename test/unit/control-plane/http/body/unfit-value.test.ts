import { describe, expect, it } from "vitest";
import { readJson } from "../../../../../control-plane/http/body/json-body.ts";
import { maxJsonDepth as maxDepth } from "../../../../../proto/json-scan.ts";

const read = (text: string) => readJson(Buffer.from(text));
const refusalOf = (text: string): unknown => {
  try {
    read(text);
    return undefined;
  } catch (error) {
    return error;
  }
};

describe("half of a surrogate pair", () => {
  it.each([
    ["in a field", '{"user":"a\\ud800b"}', "user"],
    ["the second half", '{"user":"\\uDC00"}', "user"],
    ["two in the wrong order", '{"user":"\\udc00\\ud800"}', "user"],
    ["in capitals", '{"user":"\\uD83D"}', "user"],
    ["deep in lists", '{"messages":[{"content":"ok"},{"content":[{"text":"\\ud83d"}]}]}', "messages.1.content.0.text"],
    ["in a key", '{"metadata":{"\\ud800":1}}', "metadata"],
    ["in a key of the body", '{"\\ud800":1}', undefined],
    ["all of the body", '"\\ud800"', undefined],
  ])("%s is refused by name", (_, text, param) => {
    const error = refusalOf(text);
    expect(error).toMatchObject({ code: "validation_error", param });
    expect(String(error)).toContain("unpaired surrogate");
  });

  it.each([
    ["a whole pair", '{"user":"\\ud83d\\ude00"}', "😀"],
    ["a pair across two spellings of hexadecimal", '{"user":"\\uD83D\\ude00"}', "😀"],
    ["a backslash before the letter u", '{"user":"\\\\ud800"}', "\\ud800"],
    ["what stands for what was lost", '{"user":"\\ufffd"}', "\ufffd"],
    ["the character before the halves", '{"user":"\\ud7ff"}', "\ud7ff"],
  ])("is not %s", (_, text, user) => {
    expect(read(text).value).toEqual({ user });
  });

  it("in a key that nobody reads is named by what one reads of it", () => {
    const error = refusalOf(`{"${"k".repeat(5_000)}":"\\ud800"}`);
    expect((error as { param: string }).param).toBe("k".repeat(64));
  });
});

describe("lists and objects within each other", () => {
  const nested = (depth: number) => `${'{"a":['.repeat(depth / 2)}${"]}".repeat(depth / 2)}`;

  it("are read to the limit and refused beyond it, however deep they are", () => {
    expect(refusalOf(nested(maxDepth))).toBeUndefined();
    for (const depth of [maxDepth + 2, 200_000]) {
      const error = refusalOf(nested(depth));
      expect(error).toMatchObject({ code: "validation_error" });
      expect(String(error)).toContain(`at most ${maxDepth} levels`);
    }
  });

  it("beside each other are as many as there are", () => {
    expect(refusalOf(JSON.stringify({ input: Array.from({ length: 50_000 }, () => [1, 2]) }))).toBeUndefined();
  });
});

describe("a seed", () => {
  it.each([
    ["18446744073709551615", 0],
    ["-9223372036854775808", 0],
    ["18446744073709551616", 2 ** 65],
    ["-9223372036854775809", -(2 ** 64)],
    ["9".repeat(5_000_000), 2 ** 65],
    [`-${"9".repeat(5_000_000)}`, -(2 ** 64)],
  ])("of many digits is told in or out of range without reading millions of them", (digits, told) => {
    expect((read(`{"seed":${digits}}`).value as { seed: number }).seed).toBe(told);
  });
});
