// A whole control plane and an agent that is killed: the incident, and the events of the host.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Stack, startStack } from "../../fakes/processes.ts";

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ agents: 1, controlPlaneEnv: { STOKER_HOST_CLOCKS: "0.1" } });
});
afterAll(() => stack?.stop());

const ask = async (path: string) => {
  const { status, body } = await stack.call("GET", path);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};
const patience = { timeout: 90_000, interval: 500 };

it("shows a silent host as incident and event", { timeout: 200_000 }, async () => {
  await expect.poll(async () => (await ask("/v1/admin/nodes")).nodes.length, patience).toBe(1);
  await stack.agents[0]?.stop();
  const open = async () => (await ask("/v1/admin/incidents?kind=host_silent")).incidents;
  await expect.poll(open, patience).toMatchObject([{ kind: "host_silent", ended_at: null }]);
  await expect.poll(async () => (await open())[0]?.severity, patience).toBe("critical");
  const [{ node }] = await open();
  const { events } = await ask(`/v1/admin/nodes/${node.id}/events`);
  expect(events.map(({ kind }: { kind: string }) => kind)).toContain("host.lost");
});
