import { describe, expect, it } from "vitest";
import type { Route } from "../../../../control-plane/fleet/routes.ts";
import { commonSkills, structuredRoutes } from "../../../../control-plane/inference/route-skills.ts";
import type { FormatSkill } from "../../../../proto/api-formats.ts";

/** Instances with these skills, and the number of reads of them. */
function routes(...skills: readonly (readonly FormatSkill[])[]) {
  const count = { reads: 0 };
  const list = skills.map((own) => {
    const formats = new Set(own);
    return {
      get formats() {
        count.reads += 1;
        return formats;
      },
    };
  });
  return { count, list: list as unknown as readonly Route[] };
}

describe("skills of a list of instances", () => {
  it("are those of all of them, and none of an empty list", () => {
    const { list } = routes(["responses", "structured_outputs"], ["structured_outputs", "messages"]);
    expect(commonSkills(list)).toEqual(new Set(["structured_outputs"]));
    expect(commonSkills([])).toBeUndefined();
  });

  it("select the instances for structured outputs, as the same list each time", () => {
    const { list } = routes(["structured_outputs"], ["messages"], ["structured_outputs"]);
    const structured = structuredRoutes(list);
    expect(structured).toEqual([list[0], list[2]]);
    expect(structuredRoutes(list)).toBe(structured);
    expect(structuredRoutes([])).toEqual([]);
  });

  it("are computed once per list", () => {
    const { list, count } = routes(["structured_outputs"], ["structured_outputs"], ["structured_outputs"]);
    const ask = () => commonSkills(structuredRoutes(list));
    ask();
    const { reads } = count;
    for (let n = 0; n < 50; n++) ask();
    expect(count.reads).toBe(reads);
  });
});
