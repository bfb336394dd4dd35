import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { longest, pathOf } from "../../../scripts/suites/longest-first.ts";

it("lists test files that exist", () => {
  expect(longest.map(pathOf).filter((path) => !existsSync(path))).toEqual([]);
});
