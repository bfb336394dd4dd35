// The list of migrations: what a database that ran the newest one can still be brought to.
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const store = new URL("../../../../control-plane/store/", import.meta.url);
const listed = [...readFileSync(new URL("migrate.ts", store), "utf8").matchAll(/^ {2}"(\d{4})-([\w-]+)": \w+,$/gm)];
const numbers = listed.map(([, number]) => Number(number));

it("names every migration once, by numbers that only grow", () => {
  const files = readdirSync(new URL("migrations/", store)).filter((name) => /^\d{4}-/.test(name));
  expect(listed.map(([, number, topic]) => `${number}-${topic}.ts`)).toEqual(files.toSorted());
  expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
});

it("takes no number that databases have gone past", () => {
  const highest = Math.max(...numbers);
  const passedOver = Array.from({ length: highest }, (_, i) => i + 1).filter((number) => !numbers.includes(number));
  expect(passedOver).toEqual([13, 28, 29, 30, 32]);
});
