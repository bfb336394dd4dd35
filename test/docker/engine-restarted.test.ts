// P9 of promises: a deployment survives a restart of the engine in each step of its life: in one of them at every change.
import { afterAll } from "vitest";
import { longer } from "../fakes/nightly.ts";
import { tinyHost } from "./docker-host.ts";
import { describeLife, type StepOfLife, stepsOfLife } from "./life-on-own-engine.ts";
import { startRegistry } from "./registry.ts";

const host = await tinyHost("that a deployment survives a restart of the engine in each of its steps");
const registry = host.ok ? await startRegistry() : undefined;
afterAll(() => registry?.close());

const during = longer<readonly StepOfLife[]>(["ready"], stepsOfLife);
if (during !== stepsOfLife)
  console.warn(`NOT PROVEN here: the steps other than ${during.join(", ")}. npm run test:nightly does.`);
describeLife(registry, "the engine is restarted", during, async ({ engine }) => {
  await engine.stop("SIGTERM");
  await engine.start();
});
