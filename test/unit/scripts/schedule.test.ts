import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Suite, suites } from "../../../scripts/suites/arguments.ts";
import { nextSuite, testsThatImport } from "../../../scripts/suites/schedule.ts";

/** Which suites run together, where the one that started last ends first. */
function pairsOf(chosen: readonly Suite[]): readonly (readonly Suite[])[] {
  const waiting = new Set(chosen);
  const running: Suite[] = [];
  const pairs: Suite[][] = [];
  while (waiting.size > 0) {
    const next = running.length < 2 ? nextSuite([...waiting], running) : undefined;
    if (next === undefined) {
      if (running.pop() === undefined) throw new Error(`nothing starts: ${[...waiting].join(", ")}`);
      continue;
    }
    waiting.delete(next);
    running.push(next);
    pairs.push([...running]);
  }
  return pairs;
}

describe("the schedule of the suites", () => {
  it("starts every chosen suite once", () => {
    const started = pairsOf(suites).map((running) => running.at(-1) as Suite);
    expect(started.toSorted()).toEqual(suites.toSorted());
    expect(pairsOf(["security", "docker"])).toEqual([["docker"], ["security"]]);
  });

  it("runs two at a time", () => {
    expect(pairsOf(["docker", "e2e", "integration"])).toEqual([["docker"], ["docker", "e2e"], ["integration"]]);
    expect(nextSuite(["chaos", "unit"], ["integration"])).toBe("chaos");
  });

  it("never runs a browser while the Docker suite changes networks", () => {
    const withBrowser = testsThatImport(join(import.meta.dirname, "../../.."), "test/fakes/browser.ts").map(
      (path) => path.split("/")[1] as Suite,
    );
    expect(withBrowser).toContain("integration");
    // The Docker suite's own test with a browser runs at night only.
    for (const suite of withBrowser.filter((one) => one !== "docker")) {
      expect(nextSuite([suite], ["docker"])).toBeUndefined();
      expect(nextSuite(["docker"], [suite])).toBeUndefined();
    }
  });

  it("checks the tree while nothing else runs", () => {
    expect(nextSuite(suites, [])).toBe("check");
    expect(
      nextSuite(
        suites.filter((suite) => suite !== "check"),
        ["check"],
      ),
    ).toBeUndefined();
  });
});
