import { expect, it } from "vitest";
import { contextLengthOf } from "../../../../agent/reconcile/health.ts";

it.each([
  [4096, 4096],
  [2 ** 53 - 1, 2 ** 31 - 1],
  [-1, 0],
  [1.5, 0],
  ["4096", 0],
  [undefined, 0],
])("reads the context length %s of a server as %i", (reported, length) => {
  expect(contextLengthOf(reported)).toBe(length);
});
