// Two builds of one commit, each from nothing, have the same layers: whoever builds a release again can compare it with the published one.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { docker, dockerHost } from "./docker-host.ts";

const host = await dockerHost("that two builds of an image have the same layers", ["base"]);
const script = join(import.meta.dirname, "../../scripts/runtime-image.sh");
// A busy machine takes longer than half an hour for the control plane's.
const buildLimitMs = 60 * 60_000;
const tagOf = (target: string, build: number): string => `stoker-${target}:build-${build}`;
const targets = ["agent", "control-plane", "runtime"];

async function layersOf(target: string, build: number): Promise<readonly string[]> {
  const tag = tagOf(target, build);
  const args = [script, "--target", target, "--base", "debootstrap", "--tag", tag, "--cache", "no"];
  await promisify(execFile)("sh", args, { timeout: buildLimitMs, maxBuffer: 64 * 1024 * 1024 });
  return JSON.parse(await docker("inspect", "--format", "{{json .RootFS.Layers}}", tag));
}

describe.skipIf(!host.ok)("two builds of an image", () => {
  afterAll(async () => {
    for (const target of targets)
      for (const build of [1, 2]) await docker("rmi", tagOf(target, build)).catch(() => undefined);
  });

  it.each(targets)(
    "give %s the same layers",
    async (target) => {
      const layers = await layersOf(target, 1);
      // Its base, and at least Node, its sources and its bill of materials.
      expect(layers.length).toBeGreaterThanOrEqual(4);
      expect(await layersOf(target, 2)).toEqual(layers);
    },
    2 * buildLimitMs,
  );
});
