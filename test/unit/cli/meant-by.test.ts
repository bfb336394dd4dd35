import { describe, expect, it } from "vitest";
import { CliError } from "../../../cli/cli-error.ts";
import { calledInFull, meantBy } from "../../../cli/meant-by.ts";

const adapters = [
  { key: "ada/ink", names: ["ink"] },
  { key: "ada/inkwell", names: ["inkwell"] },
  { key: "ada/chalk", names: ["chalk"] },
];
const voices = [
  { key: "kQ2x", names: ["Ada herself"] },
  { key: "k7Lm", names: ["Adam"] },
];

describe("meantBy", () => {
  it.each([
    ["ada/ink", "ada/ink"],
    ["ink", "ada/ink"],
    ["INK", "ada/ink"],
    ["inkw", "ada/inkwell"],
    ["ada/c", "ada/chalk"],
    [" chalk ", "ada/chalk"],
  ])("resolves %s to %s: the full name, else the only one with that prefix", (given, key) => {
    expect(meantBy(given, adapters)).toBe(key);
  });

  it("finds a voice by id, name or prefix of either", () => {
    expect(["k7Lm", "k7", "adam", "Ada h"].map((given) => meantBy(given, voices))).toEqual([
      "k7Lm",
      "k7Lm",
      "k7Lm",
      "kQ2x",
    ]);
  });

  it("rejects an ambiguous prefix and lists the matches", () => {
    expect(() => meantBy("ada", voices)).toThrow(
      "ada is ambiguous: Ada herself (kQ2x), Adam (k7Lm). Give the full name or id.",
    );
    expect(() => meantBy("in", adapters)).toThrow("in is ambiguous: ada/ink, ada/inkwell. Give the full name or id.");
    expect(() => meantBy(" ", adapters)).toThrow(CliError);
  });

  it("returns unknown names unchanged, so that the server reports them", () => {
    expect(meantBy("ada/paint", adapters)).toBe("ada/paint");
    expect(meantBy("ink", [])).toBe("ink");
  });
});

describe("calledInFull", () => {
  it("rejects prefixes, even unique ones", () => {
    expect(["inkw", "ada/c", "c", "ada/inkwel"].map((given) => calledInFull(given, adapters))).toEqual([
      "inkw",
      "ada/c",
      "c",
      "ada/inkwel",
    ]);
    expect(["k7", "ada", "Ada h"].map((given) => calledInFull(given, voices))).toEqual(["k7", "ada", "Ada h"]);
  });

  it("finds a choice by id or unique name", () => {
    expect(["ink", "ada/inkwell", "CHALK"].map((given) => calledInFull(given, adapters))).toEqual([
      "ada/ink",
      "ada/inkwell",
      "ada/chalk",
    ]);
    expect(["k7Lm", "ada herself"].map((given) => calledInFull(given, voices))).toEqual(["k7Lm", "kQ2x"]);
    const twins = [...voices, { key: "zz9", names: ["Adam"] }];
    expect(() => calledInFull("adam", twins)).toThrow(
      "adam is ambiguous: Adam (k7Lm), Adam (zz9). Give the full name or id.",
    );
    expect(() => calledInFull("", voices)).toThrow(CliError);
  });
});
