import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { schemaSteps } from "../../../../../control-plane/store/core/migrate.ts";

const known = ["0041-baseline", "0042-b", "0043-c"];
/** As the last version before the baseline wrote it. */
const early = [
  ...readFileSync(
    new URL("../../../../fixtures/databases/0041-shared-prefix-cache.sql", import.meta.url),
    "utf8",
  ).matchAll(/^\t\('(\d{4}-[\w-]+)', '20/gm),
].map(([, name]) => name as string);
const steps = (applied: readonly string[], required?: string) => schemaSteps(known, { applied, required });

describe("the steps for a database", () => {
  it.each([[[]], [["0041-baseline"]], [["0041-baseline", "0042-b"]]])("are to migrate from %j", (applied) => {
    expect(steps(applied, "0041-baseline")).toEqual({ kind: "migrate" });
  });

  it("are none when every migration was applied", () => {
    expect(steps(known, "0041-baseline")).toEqual({ kind: "current" });
  });

  it("are to adopt the baseline when all 36 migrations before it were applied", () => {
    expect(early).toHaveLength(36);
    expect(steps(early)).toEqual({ kind: "adopt-baseline", baseline: "0041-baseline" });
  });

  it("are refused for each state before the baseline", () => {
    for (let n = 1; n < early.length; n++)
      expect(() => steps(early.slice(0, n))).toThrow(`is at migration ${early[n - 1]},`);
  });

  it("are none when a newer schema supports this version", () => {
    const applied = [...known, "0044-d"];
    for (const required of known) expect(steps(applied, required)).toEqual({ kind: "supported", unknown: ["0044-d"] });
  });

  it.each([
    ["requires a migration that this version does not know", [...known, "0044-d"], "0044-d"],
    ["says nothing of what it requires", [...known, "0044-d"], undefined],
    ["lacks a migration of this version", ["0041-baseline", "0044-d"], "0041-baseline"],
    ["mixes early migrations with unknown ones", [...early, "0044-d"], undefined],
  ])("are refused when the newer schema %s", (_, applied, required) => {
    expect(() => steps(applied, required)).toThrow(
      /newer version of Stoker \(.*newest migration is 0043-c\. Start the newer/,
    );
  });
});
