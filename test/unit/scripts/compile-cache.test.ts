import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { removeStaleCode } from "../../fakes/compile-cache.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-cache-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it("removes compiled code that is older than the limit, and keeps the rest", () => {
  const version = join(folder, "v24");
  mkdirSync(version);
  for (const name of ["fresh", "stale"]) writeFileSync(join(version, name), "code");
  const hourAgo = Date.now() / 1000 - 3_600;
  utimesSync(join(version, "stale"), hourAgo, hourAgo);
  removeStaleCode(folder, 1_800_000);
  expect(readdirSync(version)).toEqual(["fresh"]);
});
