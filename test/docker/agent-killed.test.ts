// P9 of promises: a deployment survives that the agent is killed, in each step of its life: in two of them at every change.
import { afterAll } from "vitest";
import { longer } from "../fakes/nightly.ts";
import { tinyHost } from "./docker-host.ts";
import { describeLife, type StepOfLife, stepsOfLife } from "./life-on-own-engine.ts";
import { startRegistry } from "./registry.ts";

const host = await tinyHost("that a deployment survives each of its steps although the agent is killed");
const registry = host.ok ? await startRegistry() : undefined;
afterAll(() => registry?.close());

const during = longer<readonly StepOfLife[]>(["creating", "draining"], stepsOfLife);
if (during !== stepsOfLife)
  console.warn(`NOT PROVEN here: the steps other than ${during.join(", ")}. npm run test:nightly does.`);
describeLife(registry, "the agent is killed", during, async ({ agent, start }) => {
  await agent.kill("SIGKILL");
  start();
});
