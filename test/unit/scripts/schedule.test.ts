import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Suite, suites } from "../../../scripts/suites/arguments.ts";
import { lanes, nextSuite, testsThatImport } from "../../../scripts/suites/schedule.ts";

/** Which suites run together, where the one that started last ends first. */
function groupsOf(chosen: readonly Suite[]): readonly (readonly Suite[])[] {
  const waiting = new Set(chosen);
  const running: Suite[] = [];
  const groups: Suite[][] = [];
  while (waiting.size > 0) {
    const next = running.length < lanes ? nextSuite([...waiting], running) : undefined;
    if (next === undefined) {
      if (running.pop() === undefined) throw new Error(`nothing starts: ${[...waiting].join(", ")}`);
      continue;
    }
    waiting.delete(next);
    running.push(next);
    groups.push([...running]);
  }
  return groups;
}

describe("the schedule of the suites", () => {
  it("starts every chosen suite once", () => {
    const started = groupsOf(suites).map((running) => running.at(-1) as Suite);
    expect(started.toSorted()).toEqual(suites.toSorted());
    expect(groupsOf(["security", "docker"])).toEqual([["docker"], ["security"]]);
  });

  it("runs three at a time", () => {
    expect(groupsOf(["docker", "e2e", "integration", "unit"])).toEqual([
      ["docker"],
      ["docker", "e2e"],
      ["docker", "e2e", "unit"],
      ["integration"],
    ]);
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
});
