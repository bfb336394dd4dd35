// Requests keep succeeding through an alias while local engines are killed and a provider fails.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { atWorkerEnd } from "../../fakes/worker-end.ts";

const locals = ["local/one", "local/two"] as const;
const [first, second] = ["provider/first", "provider/second"] as const;
const children: ChildProcess[] = [];
const providers: FakeEngine[] = [];
const ids: Record<string, string> = {};
let stack: Stack;

async function startLocal(model: string): Promise<string> {
  const args = ["test/fakes/engine-process.ts", "--model", model, "--first-byte-ms", "300", "--tokens", "4"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  atWorkerEnd(() => child.kill("SIGKILL"));
  const [line] = await once(child.stdout as NodeJS.ReadableStream, "data");
  return String(line).trim().split(" ").at(-1) as string;
}

async function serve(name: string, url: string): Promise<void> {
  const made = await stack.call("POST", "/v1/admin/external", { name, url, max_batch_size: 256 });
  ids[name] = made.body.deploy_id;
  await vi.waitFor(
    async () => expect((await stack.call("GET", `/deploy/${made.body.deploy_id}`)).body.status).toBe("deployed"),
    { timeout: 60_000, interval: 100 },
  );
}

beforeAll(async () => {
  stack = await startStack();
  for (const name of locals) await serve(name, await startLocal(name));
  for (const name of [first, second]) {
    const engine = await startFakeEngine({ models: [name], tokens: 4 });
    providers.push(engine);
    await serve(name, engine.origin);
  }
  const alias = {
    targets: locals.map((model) => ({ model, weight: 1 })),
    fallbacks: [first, second],
  };
  expect((await stack.call("PUT", "/v1/model-aliases/prod", alias)).status).toBe(200);
});
afterAll(async () => {
  await stack?.stop();
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(providers.map((engine) => engine.close()));
});

const ask = (n: number) =>
  stack.call("POST", "/v1/chat/completions", {
    model: "prod",
    messages: [{ role: "user", content: `question ${n}` }],
    max_tokens: 4,
  });
const many = (count: number) => Promise.all(Array.from({ length: count }, (_, n) => ask(n)));
const failures = (replies: Awaited<ReturnType<typeof many>>) => replies.filter(({ status }) => status !== 200);
const served = () => providers.map(({ log }) => log.filter(({ path }) => path === "/v1/chat/completions").length);
const healthOf = async (name: string) =>
  (await stack.call("GET", "/v1/admin/external")).body.servers.find(
    (one: { deploy_id: string }) => one.deploy_id === ids[name],
  ).health;

it("overflows to a provider when one local engine is killed, then every one, in the middle of requests", async () => {
  expect(failures(await many(20))).toEqual([]);
  expect(served()).toEqual([0, 0]);
  const during = many(60);
  // Their first bytes are not due yet.
  children[0]?.kill("SIGKILL");
  expect(failures(await during)).toEqual([]);
  children[1]?.kill("SIGKILL");
  expect(failures(await many(60))).toEqual([]);
  const [before = 0] = served();
  expect(before).toBeGreaterThanOrEqual(60);
  expect(failures(await many(40))).toEqual([]);
  expect(served()).toEqual([before + 40, 0]);
  expect(await healthOf(locals[1])).toMatchObject({ reason: "failing" });
});

it("sends a provider that refuses the key no more requests, and serves by the next", async () => {
  providers[0]?.behave({ status: 401 });
  const [before = 0, other = 0] = served();
  expect(failures([await ask(0)])).toEqual([]);
  expect(await healthOf(first)).toMatchObject({ state: "open", reason: "key_refused" });
  expect(failures(await many(50))).toEqual([]);
  expect(served()).toEqual([before + 1, other + 51]);
});
