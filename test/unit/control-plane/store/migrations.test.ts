// The list of migrations, and that released ones never change.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const store = new URL("../../../../control-plane/store/", import.meta.url);
const files = readdirSync(new URL("migrations/", store)).toSorted();
const textOf = (file: string) => readFileSync(new URL(`migrations/${file}`, store), "utf8");
const digests = new Map(
  readFileSync(new URL("../../../fixtures/migrations.sha256", import.meta.url), "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split("  ").reverse() as [string, string]),
);

it("lists every migration once in migrate.ts, in order of their numbers", () => {
  const listed = [
    ...readFileSync(new URL("core/migrate.ts", store), "utf8").matchAll(/^ {2}"(\d{4}-[\w-]+)": \w+,$/gm),
  ];
  expect(listed.map(([, name]) => `${name}.ts`)).toEqual(files);
  const numbers = files.map((file) => file.slice(0, 4));
  expect(new Set(numbers).size).toBe(numbers.length);
});

describe.each(files)("migration %s", (file) => {
  const text = textOf(file);

  it("has the digest it was released with", () => {
    const digest = createHash("sha256").update(text).digest("hex");
    expect(
      digest,
      `A released migration never changes: write a new one. Record a new one in test/fixtures/migrations.sha256: "${digest}  ${file}".`,
    ).toBe(digests.get(file));
  });

  it("imports nothing but Kysely", () => {
    const imported = [...text.matchAll(/\b(?:from|import|require)\b\s*\(?\s*["']([^"']+)["']/g)].map(
      ([, name]) => name,
    );
    expect(imported).toEqual(["kysely"]);
  });

  it("raises the schema requirement when it removes or renames something", () => {
    const removes =
      /\bdrop (table|column|function|type|index|constraint|trigger|not null)\b|\brename (to|column|constraint)\b/i;
    // A constraint of the same name in the same statement replaces the removed one.
    const kept = text.replaceAll(/\bdrop constraint (\w+),\s*add constraint \1\b/gi, "");
    if (removes.test(kept)) expect(text).toMatch(/update schema_requirement set migration = '\d{4}-/);
  });
});

it("has no digest of a removed migration", () => {
  expect([...digests.keys()].toSorted()).toEqual(files);
});
