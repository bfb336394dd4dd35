import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./run-tool.ts";

/**
 * Installs the client libraries of scripts/test-npm.txt, which are too large for node_modules (23,500 files). Failure only prints
 * a message; tests then report what they skip.
 */
export async function installTestNpm(): Promise<void> {
  const home = join(root, ".cache/test-npm");
  const packages = readFileSync(join(root, "scripts/test-npm.txt"), "utf8");
  const installed = join(home, "installed.txt");
  if (textOf(installed) === packages) return;
  console.log(`Installing for the tests: ${packages.trim().replaceAll("\n", " ")}`);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "package.json"), '{ "private": true }\n');
  const flags = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--no-progress"];
  try {
    await promisify(execFile)("npm", ["install", ...flags, ...packages.split("\n").filter(Boolean)], {
      cwd: home,
      timeout: 10 * 60_000,
    });
    writeFileSync(installed, packages);
  } catch (error) {
    console.log(`Installation failed: ${(error as Error).message}`);
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
