// P9 of promises: a deployment survives a restart of the engine while it runs or goes. At every change: while it is
// ready.
import { afterAll } from "vitest";
import { longer } from "../fakes/nightly.ts";
import { tinyHost } from "./docker-host.ts";
import { describeLife, type StepOfLife, stepsOfLife } from "./life-on-own-engine.ts";
import { startRegistry } from "./registry.ts";

const host = await tinyHost("that a deployment survives a restart of the engine while it runs or goes");
const registry = host.ok ? await startRegistry() : undefined;
afterAll(() => registry?.close());

const during = longer<readonly StepOfLife[]>(["ready"], stepsOfLife.slice(3));
if (during.length === 1) console.warn("NOT PROVEN here: the steps other than ready. npm run test:nightly does.");
describeLife(registry, "the engine is restarted", during, async ({ engine }) => {
  await engine.stop("SIGTERM");
  await engine.start();
});
