import { describe, expect, it } from "vitest";
import {
  type Days,
  firstDay,
  keysIn,
  linesOf,
  monthLines,
  projected,
  seriesOf,
  sumOf,
  timesOf,
  totalsOf,
} from "../../../console/domain/usage.ts";

const item = (id: string, key: string, cost: number, requests = 1) => ({
  id,
  name: id,
  key_id: key,
  key_name: key === "k1" ? "ci" : "",
  spending_limit: null,
  requests,
  input_tokens: 10 * requests,
  output_tokens: requests,
  cost,
});
const days: Days = {
  days: [
    { day: "2026-01-01", total_cost: 600, items: [item("org/a", "k1", 100), item("org/b", "k2", 500)] },
    { day: "2026-01-02", total_cost: 300, items: [item("org/a", "k2", 200, 2), item("org/a", "", 100)] },
  ],
  is_truncated: false,
};
const all = { model: "", key: "" };

describe("usage by day", () => {
  it("is grouped by model or key from one answer", () => {
    expect(linesOf(days, "model", all).map(({ day, id, cost }) => [day, id, cost])).toEqual([
      ["2026-01-01", "org/a", 1],
      ["2026-01-01", "org/b", 5],
      ["2026-01-02", "org/a", 3],
    ]);
    expect(totalsOf(linesOf(days, "key", all)).map(({ name, cost, requests }) => [name, cost, requests])).toEqual([
      ["revoked key k2", 7, 3],
      ["ci", 1, 1],
      ["no key (GPU time)", 1, 1],
    ]);
    expect([...keysIn(days).keys()]).toEqual(["k1", "k2", ""]);
  });

  it("is filtered by model and key", () => {
    expect(sumOf(linesOf(days, "key", { model: "org/a", key: "" }))).toEqual({
      requests: 4,
      input: 40,
      output: 4,
      cost: 4,
    });
    expect(linesOf(days, "model", { model: "org/b", key: "k1" })).toEqual([]);
  });

  it("is charted by the largest ones, all others together", () => {
    const dates = days.days.map(({ day }) => day);
    const lines = linesOf(days, "model", all);
    expect(seriesOf(dates, lines, "cost")).toEqual([
      { name: "org/b", values: [5, 0] },
      { name: "org/a", values: [1, 3] },
    ]);
    expect(seriesOf(dates, lines, "tokens", 1)).toEqual([
      { name: "org/a", values: [11, 33] },
      { name: "Other", values: [11, 0] },
    ]);
    expect(timesOf(dates)).toEqual([1_767_225_600, 1_767_312_000]);
    expect(firstDay(2, Date.UTC(2026, 0, 2, 23))).toBe("2026-01-01");
  });

  it("of 100,000 sums is grouped into the lines of a chart", () => {
    const many: Days = {
      days: Array.from({ length: 50 }, (_, day) => ({
        day: new Date(Date.UTC(2026, 0, 1 + day)).toISOString().slice(0, 10),
        total_cost: 0,
        items: Array.from({ length: 2000 }, (_unused, at) => item(`org/${at % 40}`, `k${at}`, at)),
      })),
      is_truncated: false,
    };
    const lines = linesOf(many, "model", all);
    expect(
      seriesOf(
        many.days.map(({ day }) => day),
        lines,
        "cost",
      ),
    ).toHaveLength(7);
    expect(totalsOf(lines)).toHaveLength(40);
  });
});

describe("usage by month", () => {
  const model = { provider: "", model_name: "org/a", task: "", plan_id: "", private: false };
  const interval = { fr: Date.UTC(2026, 0, 1), to: Date.UTC(2026, 1, 1) - 1 };
  const line = (cost: number, name = "") => ({
    model,
    units: 10,
    rate: 1,
    cost,
    pricing_type: "tokens",
    interval,
    discount: { name, description: "" },
  });
  const month = {
    period: "2026.01",
    interval,
    invoice_id: "NOT_FINAL",
    total_cost: 1000,
    items: [line(100), line(200), line(50, "Batch")],
  };

  it("is summed by kind of price and discount", () => {
    expect(
      monthLines({ months: [month] }, (one) => one.model.model_name).map(({ discount, units, cost }) => [
        discount,
        units,
        cost,
      ]),
    ).toEqual([
      ["", 20, 3],
      ["Batch", 10, 0.5],
    ]);
  });

  it("is projected at the pace so far", () => {
    expect(projected(month, Date.UTC(2026, 0, 16, 12))).toBeCloseTo(20, 5);
    expect(projected(month, Date.UTC(2026, 1, 3))).toBe(10);
  });
});
