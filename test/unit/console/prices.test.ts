import { describe, expect, it } from "vitest";
import { type Price, ratesIn, ratesText, stateOf, tiersText, timeIn } from "../../../console/domain/prices.ts";

describe("prices", () => {
  it("name their units, and those without any are free", () => {
    expect(ratesText({ input: 1, output: 2.5, image_steps: 0 })).toBe(
      "$1.00 per million input tokens, $2.50 per million output tokens",
    );
    expect(ratesText({ image: 0.04, image_steps: 20 })).toBe("$0.04 per image, 20 steps");
    expect(ratesText({ hour: 0 })).toBe("free");
  });

  it("name only tiers with another price", () => {
    expect(tiersText({ priority: 1.5, flex: 0.5 })).toBe("priority × 1.5, flex × 0.5");
    expect(tiersText({ priority: 1 })).toBe("");
  });

  it("are current, future or past", () => {
    const at = (current: boolean, from: string) =>
      stateOf({ current, effective_from: from } as Price, Date.UTC(2026, 5));
    expect(at(true, "2026-01-01T00:00:00Z")).toBe("current");
    expect(at(false, "2026-01-01T00:00:00Z")).toBe("past");
    expect(at(false, "2026-07-01T00:00:00Z")).toBe("future");
  });

  it("are read from a form, without empty fields and those of other kinds", () => {
    expect(ratesIn({ input: "1.5", output: "", hour: "9" }, "model")).toEqual({ input: 1.5 });
    expect(ratesIn({ hour: "2" }, "gpu")).toEqual({ hour: 2 });
    expect(ratesIn({}, "container")).toEqual({ hour: 0 });
  });

  it("begin at a time in UTC, or now", () => {
    expect(timeIn("2026-07-01T00:00")).toBe("2026-07-01T00:00:00Z");
    expect(timeIn("")).toBeNull();
  });
});
