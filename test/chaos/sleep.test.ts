// A process dies while one of two models that use a GPU in turn gives it up for the other: the caller that waits is served or told to
// retry, both models serve afterwards, never two are awake, and no second of the GPU is billed twice.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { askEngines, instancePids, type Stack, startStack } from "../fakes/processes.ts";

const patient = { timeout: 90_000, interval: 100 };
const models = ["admin/one", "admin/other"] as const;
type Model = (typeof models)[number];
const otherOf = (model: Model): Model => (model === models[0] ? models[1] : models[0]);

let folder: string;
let stack: Stack;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-sleep-"));
  const script = join(folder, "script.json");
  const entry = join(folder, "slow-runtime.ts");
  // Long enough that the process can be killed in the middle.
  writeFileSync(script, JSON.stringify({ sleepMs: 1_000, wakeMs: 1_000 }));
  const tiny = JSON.stringify(join(import.meta.dirname, "../fakes/tiny-runtime.ts"));
  writeFileSync(entry, `process.env["TINY_RUNTIME_SCRIPT"] = ${JSON.stringify(script)};\nawait import(${tiny});\n`);
  stack = await startStack({
    agentEnv: { STOKER_GPUS: "1", STOKER_RUNTIME_ENTRY: entry, STOKER_MIN_AWAKE_SECONDS: "0" },
  });
  for (const name of models) {
    const made = await stack.call("POST", "/deploy/llm", {
      model_name: name,
      gpu: "other",
      max_batch_size: 4,
      hf: { repo: "HuggingFaceTB/SmolLM2-135M-Instruct" },
      settings: { min_instances: 1, max_instances: 1, sleep_after_seconds: 3_600 },
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
  }
  await vi.waitFor(async () => {
    for (const name of models) expect(await ask(name)).toBe(200);
  }, patient);
}, 200_000);
afterAll(async () => {
  await stack?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Status of one request; undefined: its connection broke. */
const ask = async (model: Model): Promise<number | undefined> => {
  const answer = await stack
    .call("POST", "/v1/completions", { model, prompt: "hello", max_tokens: 2 })
    .catch(() => undefined);
  if (answer?.status === 503) expect(answer.body).toMatchObject({ error: expect.any(Object) });
  return answer?.status;
};

/** What the engines do, in the order of `instancePids`. */
async function engines(): Promise<readonly { is_sleeping: boolean; changing: string }[]> {
  const replies = await askEngines(stack.agentFolder(1), "/is_sleeping");
  return await Promise.all(replies.map((reply) => reply.json()));
}

/** Resolves with the engine's place once one of them is in the middle of it. */
const during = (what: "sleep" | "wake") =>
  vi.waitFor(
    async () => {
      const at = (await engines()).findIndex(({ changing }) => changing === what);
      expect(at).toBeGreaterThanOrEqual(0);
      return at;
    },
    { timeout: 60_000, interval: 20 },
  );

/** The model that is asleep, and so needs the memory of the other one. */
async function sleeping(): Promise<Model> {
  // The other one may still sleep after its last request.
  return await vi.waitFor(async () => {
    const rows = await query<{ model_name: Model; phase: string }>(
      stack.databaseUrl,
      "select model_name, phase from deployment join instance using (deploy_id) where tombstoned_at is null",
    );
    const asleep = rows.filter(({ phase }) => phase === "asleep");
    expect(asleep).toHaveLength(1);
    return (asleep[0] as (typeof rows)[number]).model_name;
  }, patient);
}

interface Death {
  readonly when: "sleep" | "wake" | undefined;
  /** `at`: place of the engine that sleeps or wakes. */
  readonly kill: (at: number) => Promise<void>;
}

const kills = {
  "the engine that goes to sleep": {
    when: "sleep",
    kill: async (at: number) => void process.kill(instancePids(stack.agentFolder(1))[at] as number, "SIGKILL"),
  },
  "the engine that wakes": {
    when: "wake",
    kill: async (at: number) => void process.kill(instancePids(stack.agentFolder(1))[at] as number, "SIGKILL"),
  },
  "the agent during a sleep": { when: "sleep", kill: killAgent },
  "the agent during a wake": { when: "wake", kill: killAgent },
  "the agent while one is asleep": { when: undefined, kill: killAgent },
  "the control plane during a wake": {
    when: "wake",
    kill: async () => {
      await stack.controlPlane.kill9();
      stack.controlPlane.start();
    },
  },
} as const satisfies Record<string, Death>;
type Kill = keyof typeof kills;

async function killAgent(): Promise<void> {
  await stack.agents[0]?.kill9();
  stack.agents[0]?.start();
}

it.each(Object.keys(kills) as Kill[])("survives the kill of %s", { timeout: 240_000 }, async (name) => {
  const { when, kill }: Death = kills[name];
  const wanted = await sleeping();
  if (when === undefined) await kill(0);
  const waiting = ask(wanted);
  if (when !== undefined) await kill(await during(when));
  // Served, or an error that clients retry: 503, 502 of a cut attempt, or a broken connection.
  expect([200, 502, 503, undefined]).toContain(await waiting);

  for (const model of [wanted, otherOf(wanted), wanted])
    await vi.waitFor(async () => expect(await ask(model)).toBe(200), patient);
  // One sleeps for the other.
  expect((await engines()).filter(({ is_sleeping, changing }) => !is_sleeping && changing === "")).toHaveLength(1);
  const held = await query(
    stack.databaseUrl,
    "select 1 from gpu_claim where claimed_bytes > memory_bytes or account_id <> 'sleep-pool'",
  );
  expect(held).toEqual([]);
});

it("bills no second of an instance awake and asleep, and keeps the books in order", async () => {
  // The minutes of the kills, once they are over and settled.
  const minutes = await vi.waitFor(
    async () => {
      const rows = await query<{ ms: number; kinds: number }>(
        stack.databaseUrl,
        `select sum(total_ms)::int as ms, count(*)::int as kinds from usage where gpu_ms > 0
          group by instance_id, admitted_at`,
      );
      expect(rows.some(({ kinds }) => kinds === 2)).toBe(true);
      return rows;
    },
    { timeout: 150_000, interval: 500 },
  );
  for (const { ms } of minutes) expect(ms).toBeLessThanOrEqual(60_000);
  expect(await ledgerFacts(stack.databaseUrl)).toMatchObject({ sum: 0, overspent: 0 });
}, 180_000);
