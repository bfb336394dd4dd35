// Images can be built for arm64: the lock file has an arm64 build of each native package that production loads on x86-64.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

interface Package {
  readonly version: string;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly dev?: boolean;
}

const root = join(import.meta.dirname, "../../..");
const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
  readonly packages: Readonly<Record<string, Package>>;
};

/** Packages for one processor on Linux with glibc, by what they are without its name. */
function buildsFor(cpu: "x64" | "arm64"): ReadonlyMap<string, string> {
  const found = Object.entries(lock.packages).filter(
    ([path, { os, cpu: cpus, dev }]) =>
      os?.includes("linux") && cpus?.includes(cpu) && path.includes(cpu) && !/musl/.test(path) && !dev,
  );
  return new Map(found.map(([path, { version }]) => [path.replace(cpu, "CPU"), version]));
}

it("has each native package of production for arm64 in the version that it has for x86-64", () => {
  const [intel, arm] = [buildsFor("x64"), buildsFor("arm64")];
  // PostgreSQL, libvips, sharp, llama.cpp, msgpackr and reflink at least.
  expect(intel.size).toBeGreaterThanOrEqual(6);
  expect(Object.fromEntries(arm)).toEqual(Object.fromEntries(intel));
});

it("knows Node's own build for both processors in one version", () => {
  const text = readFileSync(join(root, "scripts/image/checksums.txt"), "utf8");
  const versionsOf = (cpu: string) =>
    [...text.matchAll(new RegExp(`^node-linux-${cpu}@(\\S+) `, "gm"))].map(([, v]) => v);
  expect(versionsOf("x64")).toHaveLength(1);
  expect(versionsOf("arm64")).toEqual(versionsOf("x64"));
});
