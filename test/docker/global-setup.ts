// Once for the whole run: the engine, and a folder in which files that run beside each other see who makes which image.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { findOrStartEngine } from "../../scripts/suites/docker-engine.ts";

declare module "vitest" {
  interface ProvidedContext {
    readonly dockerRun: {
      /** Empty: an engine answers. */
      readonly whyNoEngine: string;
      readonly folder: string;
    };
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const engine = await findOrStartEngine();
  const folder = mkdtempSync(join(tmpdir(), "stoker-docker-run-"));
  project.provide("dockerRun", { whyNoEngine: engine.ok ? "" : engine.reason, folder });
  return async () => {
    if (engine.ok) await engine.stop();
    rmSync(folder, { recursive: true, force: true });
  };
}
