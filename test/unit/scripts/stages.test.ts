import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Suite, suites } from "../../../scripts/suites/arguments.ts";
import { stagesOf, testsThatImport } from "../../../scripts/suites/stages.ts";

describe("the stages of a run", () => {
  it("contain every suite once", () => {
    expect(stagesOf(suites).flat(2).toSorted()).toEqual(suites.toSorted());
  });

  it("contain only the chosen suites, without empty stages and lanes", () => {
    expect(stagesOf(["docker", "chaos", "e2e"])).toEqual([[["docker"], ["e2e"]], [["chaos"]]]);
    expect(stagesOf(["docker"])).toEqual([[["docker"]]]);
  });

  it("never run a browser while the Docker suite changes networks", () => {
    const withBrowser = testsThatImport(join(import.meta.dirname, "../../.."), "test/fakes/browser.ts").map(
      (path) => path.split("/")[1] as Suite,
    );
    expect(withBrowser).toContain("integration");
    const beside =
      stagesOf(suites)
        .find((stage) => stage.flat().includes("docker"))
        ?.flat() ?? [];
    // Its own test with a browser runs at night only.
    const others = beside.filter((suite) => suite !== "docker");
    expect(others.filter((suite) => withBrowser.includes(suite))).toEqual([]);
  });

  it("check the tree while nothing else runs", () => {
    expect(stagesOf(suites).find((stage) => stage.flat().includes("check"))).toEqual([["check"]]);
  });
});
