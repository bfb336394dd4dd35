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

describe("what a person means by a name", () => {
  it.each([
    ["ada/ink", "ada/ink"],
    ["ink", "ada/ink"],
    ["INK", "ada/ink"],
    ["inkw", "ada/inkwell"],
    ["ada/c", "ada/chalk"],
    [" chalk ", "ada/chalk"],
  ])("%s is %s: what is called so in full, else the only one that begins so", (given, key) => {
    expect(meantBy(given, adapters)).toBe(key);
  });

  it("is a voice by its id, its name, or the beginning of either", () => {
    expect(["k7Lm", "k7", "adam", "Ada h"].map((given) => meantBy(given, voices))).toEqual([
      "k7Lm",
      "k7Lm",
      "k7Lm",
      "kQ2x",
    ]);
  });

  it("is never guessed among several: they are named", () => {
    expect(() => meantBy("ada", voices)).toThrow("ada could be Ada herself (kQ2x), Adam (k7Lm): give more of it.");
    expect(() => meantBy("in", adapters)).toThrow("in could be ada/ink, ada/inkwell: give more of it.");
    expect(() => meantBy(" ", adapters)).toThrow(CliError);
  });

  it("is itself where nothing is called so: the server says what is wrong", () => {
    expect(meantBy("ada/paint", adapters)).toBe("ada/paint");
    expect(meantBy("ink", [])).toBe("ink");
  });
});

describe("what is to be deleted", () => {
  it("is named in full: no beginning of a name will do, even where it could be only one", () => {
    expect(["inkw", "ada/c", "c", "ada/inkwel"].map((given) => calledInFull(given, adapters))).toEqual([
      "inkw",
      "ada/c",
      "c",
      "ada/inkwel",
    ]);
    expect(["k7", "ada", "Ada h"].map((given) => calledInFull(given, voices))).toEqual(["k7", "ada", "Ada h"]);
  });

  it("is what is called so by its id, or by a name that no other has", () => {
    expect(["ink", "ada/inkwell", "CHALK"].map((given) => calledInFull(given, adapters))).toEqual([
      "ada/ink",
      "ada/inkwell",
      "ada/chalk",
    ]);
    expect(["k7Lm", "ada herself"].map((given) => calledInFull(given, voices))).toEqual(["k7Lm", "kQ2x"]);
    const twins = [...voices, { key: "zz9", names: ["Adam"] }];
    expect(() => calledInFull("adam", twins)).toThrow("adam could be Adam (k7Lm), Adam (zz9): give more of it.");
    expect(() => calledInFull("", voices)).toThrow(CliError);
  });
});
