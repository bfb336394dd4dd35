import { describe, expect, it } from "vitest";
import { readArguments, suites } from "../../../scripts/suites/arguments.ts";

describe("the arguments of scripts/test", () => {
  it("select every suite when there are none", () => {
    expect(readArguments([])).toEqual({ kind: "suites", suites });
  });

  it.each([
    [
      ["unit", "check"],
      ["check", "unit"],
    ],
    [["--suite", "docker"], ["docker"]],
    [
      ["--suite", "e2e", "--suite", "unit", "unit"],
      ["unit", "e2e"],
    ],
  ])("select suites, which run once and in their own order: %j", (args, expected) => {
    expect(readArguments(args)).toEqual({ kind: "suites", suites: expected });
  });

  it("select the tests of a change, since a revision or since main", () => {
    expect(readArguments(["--changed"])).toEqual({ kind: "changed", since: undefined });
    expect(readArguments(["--changed", "HEAD~2"])).toEqual({ kind: "changed", since: "HEAD~2" });
  });

  it.each([
    [["unit", "units"], /no suite units\. Supported: check, unit/],
    [["--suite"], /--suite needs a name/],
    [["--suite", ""], /no suite/],
    [["--all"], /unknown option --all/],
    [["unit", "--changed"], /unknown option --changed/],
    [["--changed", "HEAD", "unit"], /at most one revision/],
  ])("are refused with the reason: %j", (args, why) => {
    expect(readArguments(args)).toEqual({ kind: "wrong", why: expect.stringMatching(why) });
  });
});
