// P9 of promises: a deployment survives a restart of the engine in each step of its life.
import { afterAll } from "vitest";
import { tinyHost } from "./docker-host.ts";
import { describeLife } from "./life-on-own-engine.ts";
import { startRegistry } from "./registry.ts";

const host = await tinyHost("that a deployment survives a restart of the engine in each of its steps");
const registry = host.ok ? await startRegistry() : undefined;
afterAll(() => registry?.close());

describeLife(registry, "the engine is restarted", async ({ engine }) => {
  await engine.stop("SIGTERM");
  await engine.start();
});
