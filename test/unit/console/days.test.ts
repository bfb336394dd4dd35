import { describe, expect, it } from "vitest";
import { endOfDay, startOfDay } from "../../../console/domain/days.ts";

describe("days of a filter", () => {
  it("include both days", () => {
    expect(startOfDay("2026-02-28")).toBe("2026-02-28T00:00:00Z");
    expect(endOfDay("2026-02-28")).toBe("2026-03-01T00:00:00.000Z");
  });

  it("limit nothing when they are empty or no day", () => {
    expect([startOfDay(""), endOfDay(""), startOfDay("2026-99-01"), endOfDay("yesterday")]).toEqual(["", "", "", ""]);
  });
});
