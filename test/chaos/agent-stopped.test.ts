// F10: the agent's process stands still (SIGSTOP) beyond its lease and beyond the time after which its work moves, with its
// model server running on, and then goes on as if nothing had been. Three hosts.
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { query } from "../e2e/spine/database.ts";
import { instancePids, isAlive, type Part, type Stack, startStack } from "../fakes/processes.ts";

const patient = { timeout: 180_000, interval: 100 };
const model = "admin/tiny";
const hosts = [1, 2, 3];
let stack: Stack;
let deployId: string;

beforeAll(async () => {
  stack = await startStack({
    isDatabaseOnDisk: true,
    agents: hosts.length,
    agentEnv: { STOKER_GPUS: "1", STOKER_RUNTIME_ENTRY: join(import.meta.dirname, "../fakes/tiny-runtime.ts") },
  });
  const hf = { repo: "HuggingFaceTB/SmolLM2-135M-Instruct" };
  const made = await stack.call("POST", "/deploy/llm", { model_name: model, gpu: "other", max_batch_size: 4, hf });
  deployId = made.body.deploy_id;
  await vi.waitFor(async () => expect(await ask()).toBe(200), patient);
}, 180_000);
afterAll(() => stack?.stop());

const ask = async () => (await stack.call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 2 })).status;
const rows = () =>
  query(
    stack.databaseUrl,
    "select instance_id, host_id, tombstoned_at is not null as gone from instance order by created_at",
  );
const servers = (n: number) => instancePids(stack.agentFolder(n)).filter(isAlive);
/** The one whose agent has the model server. */
const holder = () => hosts.find((n) => servers(n).length === 1) ?? 0;

it("moves nothing when it stands still for 45 s, and serves when it goes on", async () => {
  const holds = holder();
  const stopped = stack.agents[holds - 1] as Part;
  const before = { rows: await rows(), servers: servers(holds) };
  process.kill(stopped.pid, "SIGSTOP");
  await pause(45_000);
  expect(await rows()).toEqual(before.rows);
  process.kill(stopped.pid, "SIGCONT");
  await vi.waitFor(async () => expect(await ask()).toBe(200), patient);
  expect({ rows: await rows(), servers: servers(holds) }).toEqual(before);
}, 300_000);

it("is replaced while it stands still, and on its return gives up its copy instead of serving beside the new one", async () => {
  const holds = holder();
  const elsewhere = () => hosts.filter((n) => n !== holds).flatMap(servers);
  const stopped = stack.agents[holds - 1] as Part;
  const [old] = await rows();
  const [server] = servers(holds);
  process.kill(stopped.pid, "SIGSTOP");
  await vi.waitFor(async () => {
    expect(await rows()).toMatchObject([{ instance_id: old?.["instance_id"], gone: true }, { gone: false }]);
    expect(await ask()).toBe(200);
  }, patient);
  expect(elsewhere()).toHaveLength(1);
  // Nobody told it: it stands there still, as the agent does.
  expect(servers(holds)).toEqual([server]);
  const [, fresh] = await rows();
  expect(fresh?.["instance_id"]).not.toBe(old?.["instance_id"]);

  process.kill(stopped.pid, "SIGCONT");
  const statuses: number[] = [];
  await vi.waitFor(async () => {
    statuses.push(await ask());
    expect(servers(holds)).toEqual([]);
    expect(await rows()).toMatchObject([{ instance_id: fresh?.["instance_id"], gone: false }]);
  }, patient);
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(elsewhere()).toHaveLength(1);
  expect(stopped.isRunning).toBe(true);
  await vi.waitFor(async () => {
    const { body } = await stack.call("GET", "/v1/admin/nodes");
    expect(body.nodes).toMatchObject(hosts.map(() => ({ state: "ready" })));
  }, patient);
  expect((await stack.call("GET", `/deploy/${deployId}`)).body).toMatchObject({ status: "deployed" });
}, 600_000);
