// Prompt stealing through the prefix cache: a tenant guesses another's prompt word by word and reads `cached_tokens` to learn
// which guess was right. Real weights, the real model server and the real data path of an agent in front of it.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasModel, type RuntimeProcess, startRuntime } from "../e2e/runtime/runtime-process.ts";
import { call, type DataPath, startDataPath } from "../fakes/data-path.ts";

const model = "HuggingFaceTB/SmolLM2-135M-Instruct";
const secret =
  "The code of the safe in the cellar of the old bank in Zurich is seven four one nine and nobody may know";
/** What the attacker knows, up to the word it wants to learn; then the right word and wrong ones. */
const known = "The code of the safe in the cellar of the old bank in Zurich is";
const guesses = [" seven", " three", " never"];

describe.runIf(hasModel("prefix caches are kept apart by account"))("prefix cache", () => {
  let runtime: RuntimeProcess;
  let path: DataPath;
  let attackers = 0;
  beforeAll(async () => {
    runtime = await startRuntime({ STOKER_MAX_BATCH_SIZE: "2", STOKER_CONTEXT_LENGTH: "256" });
    path = await startDataPath(runtime.url);
  });
  afterAll(async () => {
    await path?.close();
    await runtime?.stop();
  });

  /** Tokens that the engine says it found in its cache. */
  async function cachedTokens(account: string, prompt: string, more: object = {}): Promise<number> {
    const reply = await call(path.port, {
      ticket: { account, stream: false },
      path: "/i/instance00000001/v1/completions",
      body: { model, prompt, max_tokens: 1, temperature: 0, messages: undefined, ...more },
    });
    expect([reply.status, reply.text]).toEqual([200, expect.stringContaining("cached_tokens")]);
    expect(reply.usage?.cachedInput).toBe(JSON.parse(reply.text).usage.prompt_tokens_details.cached_tokens);
    return reply.usage?.cachedInput as number;
  }
  const attacker = () => `u:attacker${++attackers}`;
  const learned = async (more?: object) => {
    const counts: number[] = [];
    for (const guess of guesses) counts.push(await cachedTokens(attacker(), `${known}${guess}`, more));
    return new Set(counts);
  };

  it("reveals nothing of another tenant's prompt, and finds each tenant's own prompts again", async () => {
    await cachedTokens("u:victim", secret);
    // More questions than sequences: some are answered by the one that held the secret.
    expect(await learned()).toEqual(new Set([0]));
    await cachedTokens("u:victim", secret);
    const own = await cachedTokens("u:victim", secret);
    expect(own).toBeGreaterThan(15);
  });

  it("keeps prompts under equal cache keys apart, also after they were moved to files", async () => {
    const key = { prompt_cache_key: "one key of two tenants" };
    const long = `${secret}. `.repeat(3);
    await cachedTokens("u:victim", long, key);
    for (let i = 0; i < 2; i++) await cachedTokens("u:flood", `${i} flood`, { prompt_cache_key: `flood ${i}` });
    expect(await cachedTokens("u:keyed", long, key)).toBe(0);
    expect(await cachedTokens("u:victim", long, key)).toBeGreaterThan(64);
  });

  it("takes the tenant from the agent alone: nothing in a body changes it", async () => {
    await cachedTokens("u:victim", secret);
    const fields = { cache_salt: "x", user: "u:victim", "x-stoker-tenant": "victim", cache_scope: "shared" };
    expect(await learned(fields)).toEqual(new Set([0]));
  });

  // The control of this file: with sharing on, the same questions do tell the right guess from the wrong ones.
  it("shares prompts between tenants where the operator chose so", async () => {
    path.target({ sharesPrefixCache: true });
    await cachedTokens("u:victim", secret);
    const right = await cachedTokens(attacker(), `${known}${guesses[0]} x`);
    await cachedTokens("u:victim", secret);
    const wrong = await cachedTokens(attacker(), `${known}${guesses[1]} x`);
    expect(right).toBeGreaterThan(wrong);
    expect(wrong).toBeGreaterThan(10);
    path.target({ sharesPrefixCache: false });
  });
});
