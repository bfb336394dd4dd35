// A process dies while an engine exchanges one LoRA adapter for another: callers are served or told to retry, and afterwards the base and
// the new adapter serve, the old one is gone from gateway and engine, and the books are in order.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts } from "../e2e/spine/database.ts";
import { type FakeHub, startHub } from "../fakes/hub.ts";
import { askEngine, instancePids, type Stack, startStack } from "../fakes/processes.ts";

const patient = { timeout: 90_000, interval: 100 };
const base = "admin/base";
const repo = "ada/adapter";
const baseRepo = "HuggingFaceTB/SmolLM2-135M-Instruct";

let folder: string;
let hub: FakeHub;
let stack: Stack;
let served = "admin/adapter-0";

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-adapter-swap-"));
  const script = join(folder, "script.json");
  const entry = join(folder, "slow-runtime.ts");
  // Long enough that the process can be killed in the middle.
  writeFileSync(script, JSON.stringify({ adapterMs: 2_000 }));
  const tiny = JSON.stringify(join(import.meta.dirname, "../fakes/tiny-runtime.ts"));
  writeFileSync(entry, `process.env["TINY_RUNTIME_SCRIPT"] = ${JSON.stringify(script)};\nawait import(${tiny});\n`);
  const config = { peft_type: "LORA", r: 8, base_model_name_or_path: baseRepo };
  const files = {
    "adapter_config.json": Buffer.from(JSON.stringify(config)),
    "adapter_model.safetensors": Buffer.from("{}"),
  };
  hub = await startHub({ repo, files });
  stack = await startStack({
    agentEnv: { HF_ENDPOINT: hub.url, STOKER_GPUS: "1", STOKER_RUNTIME_ENTRY: entry },
    controlPlaneEnv: { HF_ENDPOINT: hub.url },
  });
  const made = await stack.call("POST", "/deploy/llm", {
    model_name: base,
    gpu: "other",
    max_batch_size: 4,
    hf: { repo: baseRepo },
    settings: { min_instances: 1, max_instances: 1 },
  });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  await serves(base);
  const offered = await stack.call("PUT", `/v1/admin/models/${base}`, {
    deploy_id: made.body.deploy_id,
    description: "",
    pricing: { input: 10, cached_input: 5, output: 20 },
  });
  expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  await create(served);
  await serves(served);
}, 200_000);
afterAll(async () => {
  await stack?.stop();
  await hub?.close();
  rmSync(folder, { recursive: true, force: true });
});

const call = (model: string) => stack.call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 2 });

/** Resolves with the text, once the model serves. */
const serves = (model: string): Promise<string> =>
  vi.waitFor(async () => {
    const { status, body } = await call(model);
    expect(status, JSON.stringify(body)).toBe(200);
    return body.choices[0].text;
  }, patient);

async function create(name: string): Promise<void> {
  const made = await stack.call("POST", "/lora-model", {
    hf_model_name: repo,
    lora_model_name: name,
    base_model_name: base,
  });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
}

async function engine<T>(path: string): Promise<T> {
  return (await (await askEngine(stack.agentFolder(1), path)).json()) as T;
}

const loaded = async () =>
  (await engine<{ data: readonly { id: string; parent?: string }[] }>("/v1/models")).data
    .filter(({ parent }) => parent !== undefined)
    .map(({ id }) => id);

/** Resolves once the engine is in the middle of it. */
const during = (what: "load" | "unload") =>
  vi.waitFor(async () => expect(await engine("/is_sleeping")).toMatchObject({ changing: what }), {
    timeout: 60_000,
    interval: 20,
  });

const killEngine = async () => void process.kill(instancePids(stack.agentFolder(1))[0] as number, "SIGKILL");
const killAgent = async () => {
  await stack.agents[0]?.kill9();
  stack.agents[0]?.start();
};
const killControlPlane = async () => {
  await stack.controlPlane.kill9();
  stack.controlPlane.start();
};

it.each([
  { who: "the engine", when: "load", kill: killEngine },
  { who: "the engine", when: "unload", kill: killEngine },
  { who: "the agent", when: "load", kill: killAgent },
  { who: "the agent", when: "unload", kill: killAgent },
  { who: "the control plane", when: "load", kill: killControlPlane },
] as const)("survives the kill of $who during the $when of a swap", { timeout: 300_000 }, async ({ when, kill }) => {
  const old = served;
  served = `admin/adapter-${Number(old.split("-").at(-1)) + 1}`;
  expect((await stack.call("DELETE", `/lora-model/${old}`)).status).toBe(200);
  await create(served);
  await during(when);
  const waiting = [base, served].map((model) =>
    call(model).then(
      ({ status }) => status,
      () => undefined,
    ),
  );
  await kill();
  // Served, or an error that clients retry: 503, 502 of a cut attempt, or a broken connection.
  for (const status of await Promise.all(waiting)) expect([200, 502, 503, undefined]).toContain(status);

  const id = await serves(served);
  expect(await serves(base)).toBe("tiny words");
  expect((await call(old)).status).toBe(404);
  await vi.waitFor(async () => expect(await loaded()).toEqual([id]), patient);
});

it("bills no request twice, and keeps the books in order", async () => {
  await vi.waitFor(
    async () =>
      expect(await ledgerFacts(stack.databaseUrl)).toMatchObject({ sum: 0, overspent: 0, capturesPerRequest: 1 }),
    patient,
  );
});
