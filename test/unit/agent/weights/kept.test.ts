import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createKeptSets, type Kept } from "../../../../agent/weights/kept.ts";

const key = "a".repeat(64);
const setOf = (commit: string): Kept => ({
  repo: "acme/tiny",
  revision: "refs/pr/1",
  commit,
  entry: "",
  files: [{ path: "config.json", sha256: "b".repeat(64), sizeBytes: 2 }],
});

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "stoker-kept-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

it("removes only its own files when a set's commit is named like a path, so that the next one takes its place", async () => {
  const kept = createKeptSets(folder);
  await kept.remember(key, setOf("refs/pr/1"));
  await kept.remember(key, setOf("0".repeat(40)));
  const list = await kept.list();
  expect(list.map(({ commit, isOld }) => [commit, isOld]).sort()).toEqual([
    ["0".repeat(40), false],
    ["refs/pr/1", true],
  ]);
  for (const old of list.filter(({ isOld }) => isOld)) await kept.forget(old);
  expect((await kept.list()).map(({ commit }) => commit)).toEqual(["0".repeat(40)]);
});
