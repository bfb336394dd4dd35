// P9 of promises: a deployment survives that the agent is killed, in each step of its life.
import { afterAll } from "vitest";
import { tinyHost } from "./docker-host.ts";
import { describeLife } from "./life-on-own-engine.ts";
import { startRegistry } from "./registry.ts";

const host = await tinyHost("that a deployment survives each of its steps although the agent is killed");
const registry = host.ok ? await startRegistry() : undefined;
afterAll(() => registry?.close());

describeLife(registry, "the agent is killed", async ({ agent, start }) => {
  await agent.kill("SIGKILL");
  start();
});
