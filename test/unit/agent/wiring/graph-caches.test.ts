import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { dropOldGraphs } from "../../../../agent/wiring/weights.ts";

it("graphs of a deployment that went long ago are removed, those of a sleeping or a wanted one stay", async () => {
  const root = mkdtempSync(join(tmpdir(), "stoker-graphs-"));
  try {
    const nowMs = Date.now();
    for (const [name, days] of [
      ["gone", 8],
      ["asleep", 2],
      ["wanted", 30],
    ] as const) {
      mkdirSync(join(root, name));
      writeFileSync(join(root, name, "a.onnx"), "x");
      const at = new Date(nowMs - days * 24 * 3600 * 1000);
      utimesSync(join(root, name), at, at);
    }
    expect(await dropOldGraphs(root, new Set(["wanted"]), nowMs)).toEqual(["gone"]);
    expect(readdirSync(root).sort()).toEqual(["asleep", "wanted"]);
    expect(await dropOldGraphs(join(root, "none"), new Set(), nowMs)).toEqual([]);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
