import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./run-tool.ts";

/**
 * Client libraries that are too large for everybody's node_modules, and for every change (23,500 files): those of
 * scripts/test-npm.txt. Where they cannot be installed, it says so, and tests say what they did not prove.
 */
export async function installTestNpm(): Promise<void> {
  const home = join(root, ".cache/test-npm");
  const wanted = readFileSync(join(root, "scripts/test-npm.txt"), "utf8");
  const installed = join(home, "installed.txt");
  if (textOf(installed) === wanted) return;
  console.log(`Installing for the tests: ${wanted.trim().replaceAll("\n", " ")}`);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "package.json"), '{ "private": true }\n');
  const flags = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--no-progress"];
  try {
    await promisify(execFile)("npm", ["install", ...flags, ...wanted.split("\n").filter(Boolean)], {
      cwd: home,
      timeout: 10 * 60_000,
    });
    writeFileSync(installed, wanted);
  } catch (error) {
    console.log(`They could not be installed: ${(error as Error).message}`);
    rmSync(home, { recursive: true, force: true });
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
