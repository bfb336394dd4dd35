import { describe, expect, it } from "vitest";
import { periods, readRetention } from "../../../../control-plane/retention/periods.ts";

const hourMs = 3_600_000;

describe("the periods of retention", () => {
  it("are the defaults if nothing is configured", () => {
    const { retention, problems } = readRetention(undefined);
    expect(problems).toEqual([]);
    expect(retention.changes).toBe(7 * 24 * hourMs);
    expect(Object.keys(retention).toSorted()).toEqual(Object.keys(periods).toSorted());
  });

  it("prefer configured hours and days to the defaults", () => {
    const { retention, problems } = readRetention("changes=36h, request-labels=90d");
    expect(problems).toEqual([]);
    expect([retention.changes, retention["request-labels"]]).toEqual([36 * hourMs, 90 * 24 * hourMs]);
  });

  it.each(["ledger=1d", "changes=7", "changes=1h", "request-labels=0d", "toString=1d", "changes=-1d"])(
    "refuse %s with a sentence",
    (text) => {
      const { problems } = readRetention(text);
      expect(problems).toHaveLength(1);
      expect(problems[0]).toMatch(/^STOKER_RETENTION: .*\.$/);
    },
  );
});
