// Two control plane processes on one database, one agent with a session at one of them.
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { query } from "../../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../../fakes/external-stack.ts";
import { type ControlPlane, instancePids, isAlive } from "../../fakes/processes.ts";

const patient = { timeout: 30_000, interval: 100 };
const demoModel = "HuggingFaceTB/SmolLM2-135M-Instruct";
let world: ExternalStack;

beforeAll(async () => {
  world = await startExternalStack({
    replicas: 2,
    agentEnv: { STOKER_GPUS: "1", STOKER_RUNTIME_ENTRY: join(import.meta.dirname, "../../fakes/tiny-runtime.ts") },
  });
});
afterAll(() => world?.stop());

/** Epoch of the newest agent session a control plane began, by its own log. */
const newestEpoch = (control: ControlPlane) =>
  Math.max(
    0,
    ...[...control.log().matchAll(/"nodeEpoch":"(\d+)".*agent session started/g)].map(([, epoch]) => Number(epoch)),
  );

/** Who holds the agent's session, and the one that does not. */
function holder(): { holds: ControlPlane; other: ControlPlane } {
  const [one, two] = world.stack.controlPlanes as [ControlPlane, ControlPlane];
  return newestEpoch(one) > newestEpoch(two) ? { holds: one, other: two } : { holds: two, other: one };
}

const placed = () =>
  query(world.stack.databaseUrl, "select instance_id, host_id, generation from instance order by instance_id");

const ask = async (at: ControlPlane, model = world.model) =>
  (await world.stack.call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 2 }, {}, at)).status;

it("serves requests and shows the host as ready at the one without the session", async () => {
  const { holds, other } = holder();
  expect(newestEpoch(holds)).toBeGreaterThan(newestEpoch(other));
  // What the holder hears comes to the other one by the database.
  await vi.waitFor(async () => expect(await ask(other)).toBe(200), patient);
  await vi.waitFor(async () => {
    const { body } = await world.stack.call("GET", "/v1/admin/nodes", undefined, {}, other);
    expect(body.nodes).toMatchObject([{ name: "node-1", state: "ready" }]);
  }, patient);
});

it("runs at the agent what the other one deployed, serves it from both, and reads its log lines from either", async () => {
  const { holds, other } = holder();
  const { stack } = world;
  const before = await placed();
  const request = { model_name: "admin/tiny", gpu: "other", max_batch_size: 2, hf: { repo: demoModel } };
  const made = await stack.call("POST", "/deploy/llm", request, {}, other);
  const id = made.body.deploy_id as string;
  await vi.waitFor(async () => {
    const { body } = await stack.call("GET", `/deploy/${id}`, undefined, {}, other);
    expect(body).toMatchObject({ status: "deployed" });
  }, patient);
  await vi.waitFor(async () => {
    expect([await ask(holds, "admin/tiny"), await ask(other, "admin/tiny")]).toEqual([200, 200]);
  }, patient);
  for (const at of [holds, other]) {
    const { status, body } = await stack.call("GET", `/v1/logs/query?deploy_id=${id}`, undefined, {}, at);
    expect(status).toBe(200);
    expect(JSON.stringify(body.entries)).toContain("tiny runtime starts");
  }
  expect((await stack.call("DELETE", `/deploy/${id}`, undefined, {}, other)).status).toBeLessThan(300);
  await vi.waitFor(() => expect(instancePids(stack.agentFolder(1)).filter(isAlive)).toEqual([]), patient);
  // Nor does anything of it stay in the database: the agent has said that it is gone.
  await vi.waitFor(async () => expect(await placed()).toEqual(before), patient);
});

it("uses a host again after a refused connection, as soon as it reports", async () => {
  const { other } = holder();
  const [agent] = world.stack.agents;
  await agent?.kill9();
  expect(await ask(other)).not.toBe(200);
  agent?.start();
  await vi.waitFor(async () => {
    const { holds, other: now } = holder();
    expect(await ask(now)).toBe(200);
    expect(await ask(holds)).toBe(200);
  }, patient);
});

it("loses no request at the remaining one when the session's holder is killed, and the agent reconnects there", async () => {
  const { holds, other } = holder();
  const before = await placed();
  await holds.kill9();
  const statuses: number[] = [];
  await vi.waitFor(async () => {
    statuses.push(await ask(other));
    expect(newestEpoch(other)).toBeGreaterThan(newestEpoch(holds));
  }, patient);
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(await placed()).toEqual(before);
  holds.start();
  await vi.waitFor(async () => expect(await ask(holds)).toBe(200), patient);
});
