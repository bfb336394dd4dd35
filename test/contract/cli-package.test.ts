// The package of the command line, installed where nothing else of Stoker is.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { currentVersion } from "../../scripts/release/version.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
let folder: string;
let edge: Edge;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-cli-package-"));
  edge = await startEdge();
  const { stdout } = await run(process.execPath, [join(root, "scripts/pack-cli.ts"), "--to", folder]);
  // Offline: it has no dependencies that a registry must send.
  const flags = ["--offline", "--no-audit", "--no-fund", "--prefix", join(folder, "prefix")];
  await run("npm", ["install", "--global", ...flags, stdout.trim()], { timeout: 120_000 });
});
afterAll(async () => {
  await edge?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** In an empty folder, with this Node as the only one. */
const stoker = (...args: string[]) =>
  run(join(folder, "prefix/bin/stoker"), args, {
    cwd: folder,
    env: {
      PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
      HOME: folder,
      STOKER_HOST: edge.url,
      STOKER_API_KEY: apiKey,
    },
  });

it("runs without the repository", async () => {
  expect((await stoker("--version")).stdout).toBe(`${currentVersion(root)}\n`);
  expect((await stoker("auth", "status")).stdout).toContain(edge.url);
  expect((await stoker("doctor").catch((error) => error)).stdout).toMatch(/ok +host +\S/);
});

it("reports which of its commands need the repository", async () => {
  await expect(stoker("up")).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/runs scripts\/up, which the package/),
  });
});
