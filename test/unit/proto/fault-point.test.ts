import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { faultPoint, withPoints } from "../../../proto/fault-point.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "stoker-fault-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => vi.restoreAllMocks());

const kills = () => vi.spyOn(process, "kill").mockReturnValue(true);

it("kills the process at its points only, and where a file is named only once for each file", () => {
  const kill = kills();
  const file = join(folder, "fuse");
  const point = faultPoint<"a" | "b" | "c">(`a,b@${file}`);
  point("c");
  point("b");
  expect(kill).not.toHaveBeenCalled();
  writeFileSync(file, "");
  point("b");
  point("b");
  expect(kill.mock.calls).toEqual([[process.pid, "SIGKILL"]]);
  point("a");
  expect(kill).toHaveBeenCalledTimes(2);
});

it("does nothing without a setting", () => {
  const kill = kills();
  faultPoint(undefined)("a");
  faultPoint("")("");
  expect(kill).not.toHaveBeenCalled();
});

it("puts points before and after a method, and keeps what it returns and throws", async () => {
  const seen: string[] = [];
  const store = {
    add: async (a: number, b: number) => {
      seen.push("add");
      if (a < 0) throw new Error("negative");
      return a + b;
    },
    other: 1,
  };
  const pointed = withPoints(store, "add", (name: "before" | "after") => seen.push(name), {
    before: "before",
    after: "after",
  });
  expect([await pointed.add(1, 2), pointed.other]).toEqual([3, 1]);
  expect(seen).toEqual(["before", "add", "after"]);
  await expect(pointed.add(-1, 2)).rejects.toThrow("negative");
  expect(seen).toEqual(["before", "add", "after", "before", "add"]);
});
