import { describe, expect, it } from "vitest";
import { createUsageDays, type DayUse, maxDays, readDays } from "../../../../control-plane/billing/usage-days.ts";
import type { AccountId, KeyId } from "../../../../proto/ids.ts";

const account = "u:1" as AccountId;
const nowMs = Date.UTC(2026, 2, 1, 13, 30);
const use = (day: number, of: string, cost: bigint, more: Partial<DayUse> = {}): DayUse => ({
  dayMs: Date.UTC(2026, 1, day),
  of,
  key: undefined,
  limit: null,
  requests: 1,
  inputTokens: 2,
  outputTokens: 3,
  cost,
  ...more,
});

describe("the days of a period", () => {
  it("are the last thirty, today included, where nobody says which", () => {
    expect(readDays(undefined, undefined, nowMs)).toEqual({
      firstMs: Date.UTC(2026, 0, 31),
      lastMs: Date.UTC(2026, 2, 1),
    });
  });

  it("are those that are named, the last one included", () => {
    const { firstMs, lastMs } = readDays("2026-02-27", "2026-03-01", nowMs);
    expect([firstMs, lastMs]).toEqual([Date.UTC(2026, 1, 27), Date.UTC(2026, 2, 1)]);
  });

  it.each([
    ["2026-02-30", undefined, "from"],
    ["yesterday", undefined, "from"],
    [undefined, "2026-2-1", "to"],
    ["2026-03-02", "2026-03-01", "from"],
    ["2025-12-29", "2026-03-01", "from"],
  ])("%s to %s are refused, naming %s", (from, to, param) => {
    expect(() => readDays(from, to, nowMs)).toThrow(expect.objectContaining({ code: "bad_period" }));
    expect(() => readDays(from, to, nowMs)).toThrow(expect.objectContaining({ param }));
  });

  it(`may be ${maxDays}`, () => {
    expect(() => readDays("2025-12-30", "2026-03-01", nowMs)).not.toThrow();
  });
});

describe("use by day", () => {
  const daysOf = (found: readonly DayUse[]) =>
    createUsageDays({
      store: {
        dayUse: async (_account, _by, _from, _to, max) => ({
          uses: found.slice(0, max),
          isTruncated: found.length > max,
        }),
        projectsOf: async () => [],
        keysOf: async () => [{ key: "k1" as KeyId, name: "ci" }],
        divideNext: async () => false,
      },
      unixMs: () => nowMs,
    });

  it("names every day, also one without use, and sums each", async () => {
    const found = [use(27, "a/b", 5n), use(27, "a/c", 2n)];
    const { days, isTruncated } = await daysOf(found).read(account, "model", "2026-02-26", "2026-02-27");
    expect(days.map(({ day, totalCost, items }) => [day, totalCost, items.map(({ name }) => name)])).toEqual([
      ["2026-02-26", 0n, []],
      ["2026-02-27", 7n, ["a/b", "a/c"]],
    ]);
    expect(isTruncated).toBe(false);
  });

  it("calls keys and the signers of tokens by their names, and what has none by nothing", async () => {
    const keys = await daysOf([use(27, "k1", 1n), use(27, "", 1n), use(27, "gone", 1n)]).read(
      account,
      "key",
      "2026-02-27",
      "2026-02-27",
    );
    expect(keys.days[0]?.items.map(({ of, name }) => [of, name])).toEqual([
      ["k1", "ci"],
      ["", ""],
      ["gone", ""],
    ]);
    const tokens = await daysOf([use(27, "jwt/x", 1n, { key: "k1" as KeyId, limit: 9n })]).read(
      account,
      "token",
      "2026-02-27",
      "2026-02-27",
    );
    expect(tokens.days[0]?.items).toMatchObject([{ of: "jwt/x", name: "ci", limit: 9n }]);
  });

  it("says when there is more than is listed", async () => {
    const many = Array.from({ length: 5_001 }, (_, i) => use(27, `m${i}`, 1n));
    const { days, isTruncated } = await daysOf(many).read(account, "model", "2026-02-27", "2026-02-27");
    expect([days[0]?.items.length, isTruncated]).toEqual([5_000, true]);
  });
});
