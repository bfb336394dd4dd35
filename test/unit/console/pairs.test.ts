import { expect, it } from "vitest";
import { pairsIn } from "../../../console/domain/pairs.ts";

it("reads a pair of each line, at its first or last =, and leaves an empty value where there is none", () => {
  expect(pairsIn("environment = production\n\n  ref=a=b \nbare", "first")).toEqual([
    ["environment", "production"],
    ["ref", "a=b"],
    ["bare", ""],
  ]);
  expect(pairsIn("cn=leads,dc=acme = admin", "last")).toEqual([["cn=leads,dc=acme", "admin"]]);
});
