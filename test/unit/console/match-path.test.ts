import { expect, it } from "vitest";
import { matchPath } from "../../../console/match-path.ts";

it("returns the parameters of a path", () => {
  expect(matchPath("/models/:name", "/models/fake%2Fchat")).toEqual({ name: "fake/chat" });
  expect(matchPath("/models", "/models")).toEqual({});
  expect(matchPath("/models", "/keys")).toBeUndefined();
  expect(matchPath("/models/:name", "/models")).toBeUndefined();
});

it("rejects invalid and traversing names", () => {
  for (const name of ["%E0", "..%2Fv1%2Fme", "a%2F..%2Fb", "%2e%2e", "."])
    expect(matchPath("/models/:name", `/models/${name}`), name).toBeUndefined();
});
