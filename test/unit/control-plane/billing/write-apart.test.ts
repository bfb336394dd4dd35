import { expect, it } from "vitest";
import { writeApart } from "../../../../control-plane/billing/write-apart.ts";
import { DatabaseUnavailable } from "../../../../control-plane/service-error.ts";

const refused = new Error("refused");
const outage = new DatabaseUnavailable("unreachable");
const rows = Array.from({ length: 500 }, (_, i) => i);

/** A database that refuses the rows of `invalid` and becomes unavailable at a group with the row `lastBefore`. */
function database(invalid: ReadonlySet<number>, lastBefore?: number) {
  const written: number[] = [];
  let attempts = 0;
  return {
    written,
    attempts: () => attempts,
    attempt: async (group: readonly number[]): Promise<unknown> => {
      attempts += 1;
      if (lastBefore !== undefined && group.includes(lastBefore)) return outage;
      if (group.some((row) => invalid.has(row))) return refused;
      written.push(...group);
      return undefined;
    },
  };
}

it.each([
  ["the first", [0]],
  ["the last", [499]],
  ["neighbours", [7, 8]],
  ["several", [3, 250, 251, 499]],
])("writes all rows but the invalid ones: %s", async (_, invalid) => {
  const { attempt, written, attempts } = database(new Set(invalid));
  const { failed, untried } = await writeApart(rows, refused, attempt);
  expect(failed).toEqual(invalid.map((row) => [row, refused]));
  expect(untried).toEqual([]);
  expect(written).toEqual(rows.filter((row) => !invalid.includes(row)));
  expect(attempts()).toBeLessThanOrEqual(24 * invalid.length);
});

it("costs little more than an attempt for each row when all are invalid", async () => {
  const { attempt, attempts } = database(new Set(rows));
  expect((await writeApart(rows, refused, attempt)).failed).toHaveLength(rows.length);
  expect(attempts()).toBeLessThanOrEqual(572);
});

it("tries a single row no second time", async () => {
  const { attempt, attempts } = database(new Set([1]));
  expect(await writeApart([1], refused, attempt)).toEqual({ failed: [[1, refused]], untried: [] });
  expect(attempts()).toBe(0);
});

it("stops at an outage and returns the rows that were not tried", async () => {
  const { attempt, written } = database(new Set([2]), 300);
  const left = await writeApart(rows, refused, attempt);
  expect(left.outage).toBe(outage);
  expect(left.failed).toEqual([[2, refused]]);
  expect([...written, 2, ...left.untried].toSorted((a, b) => a - b)).toEqual(rows);
  expect(left.untried).toContain(499);
});
