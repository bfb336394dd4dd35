import { describe, expect, it } from "vitest";
import { chooseTests, importDistances } from "../../../scripts/suites/changed-tests.ts";

describe("the imports between a test and a changed file", () => {
  const sources = new Map([
    ["a/base.ts", "export const one = 1;"],
    ["a/middle.ts", 'import {\n  one,\n} from "./base.ts";\n'],
    ["a/again.ts", 'export { one } from "./base.ts";'],
    ["a/lazy.ts", 'const later = () => import("../a/middle.ts");'],
    ["a/types.ts", 'import type { One } from "./base.ts";\nexport type { One } from "./base.ts";'],
    ["test/unit/near.test.ts", 'import "../../a/base.ts";'],
    ["test/unit/far.test.ts", 'import { x } from "../../a/lazy.ts";'],
  ]);

  it("are counted along the shortest path, and a file of only types is not affected", () => {
    expect(Object.fromEntries(importDistances(sources, ["a/base.ts"]))).toEqual({
      "a/base.ts": 0,
      "a/middle.ts": 1,
      "a/again.ts": 1,
      "test/unit/near.test.ts": 1,
      "a/lazy.ts": 2,
      "test/unit/far.test.ts": 3,
    });
  });
});

describe("the tests of a change", () => {
  const many = (suite: string, count: number, distance: number) =>
    Array.from({ length: count }, (_, n): [string, number] => [`test/${suite}/${n}.test.ts`, distance]);

  it("are the nearest ones that fit into the time, and the others are counted", () => {
    const { run, left } = chooseTests(new Map([...many("integration", 100, 5), ...many("contract", 20, 2)]));
    expect(run.get("contract")).toHaveLength(20);
    const integration = run.get("integration") ?? [];
    expect(integration.length).toBeGreaterThan(3);
    expect(integration.length).toBeLessThan(14);
    expect(left).toEqual(new Map([["integration", 100 - integration.length]]));
  });

  it("are of equally near ones first those in a folder with the name of the changed file's", () => {
    const near = new Map([...many("integration/accounts", 100, 5), ...many("integration/billing", 3, 5)]);
    const { run } = chooseTests(near, new Set(["billing"]));
    expect(run.get("integration")?.slice(0, 3)).toEqual([...near.keys()].slice(100));
  });

  it("include every test that was changed itself", () => {
    const { run, left } = chooseTests(new Map(many("docker", 5, 0)));
    expect(run.get("docker")).toHaveLength(5);
    expect(left.size).toBe(0);
  });

  it("include no test for machines with a GPU", () => {
    expect(chooseTests(new Map(many("gpu", 1, 0)))).toEqual({ run: new Map(), left: new Map() });
  });
});
