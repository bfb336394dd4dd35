// `up` with several models: two of speech from a folder that is only read, and one of the catalogue, whose weights a hub of this
// test has. The language model of the catalogue is served from the weights of the demo model.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cachedModel } from "../../fakes/cached-models.ts";
import { freePort } from "../../fakes/free-port.ts";
import { type FakeHub, startHub } from "../../fakes/hub.ts";
import { clearUp, newDataDir, startUp, type Up } from "./start-up.ts";

const promise = "up serves several models, and writes into none of the folders that it reads";
const weights = cachedModel("SmolLM2-135M-Instruct.Q4_1.gguf", promise);
const speech = ["piper-joe", "kokoro-82m"].map((key) => cachedModel(key, promise));
const isProven = weights !== undefined && !speech.includes(undefined);
const models = ["Qwen/Qwen3-0.6B", "rhasspy/piper-en_US-joe-medium", "hexgrad/Kokoro-82M"] as const;
let given: string;
let hub: FakeHub;
let up: Up;

beforeAll(async () => {
  if (!isProven) return;
  given = mkdtempSync(join(tmpdir(), "stoker-given-"));
  for (const folder of speech as string[]) symlinkSync(folder, join(given, basename(folder)));
  hub = await startHub({
    repo: "Qwen/Qwen3-0.6B-GGUF",
    files: { "Qwen3-0.6B-Q8_0.gguf": readFileSync(weights) },
  });
  const flags = ["qwen/qwen3-0.6b", "piper-joe", "kokoro-82m"].flatMap((key) => ["--model", key]);
  const dataDir = newDataDir();
  mkdirSync(join(dataDir, "demo-models"), { recursive: true });
  up = startUp(dataDir, await freePort(), ["--driver", "process", ...flags], {
    STOKER_DEMO_MODELS: given,
    HF_ENDPOINT: hub.url,
  });
  await up.ready();
}, 300_000);
afterAll(async () => {
  if (!isProven) return;
  await clearUp(up);
  await hub.close();
  rmSync(given, { recursive: true });
});

const call = (path: string, body: object) =>
  fetch(up.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${up.key()}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });

test.runIf(isProven)("its first request to each is neither billed nor a failure", async () => {
  const get = async (path: string) =>
    (await fetch(up.url + path, { headers: { authorization: `Bearer ${up.key()}` } })).json();
  await expect.poll(async () => (await get("/v1/requests")).requests.length, { timeout: 60_000 }).toBe(models.length);
  const { requests } = await get("/v1/requests");
  expect(requests.map((one: { end_reason: string; cost: number }) => [one.end_reason === "refused", one.cost])).toEqual(
    models.map(() => [false, 0]),
  );
  expect(await get("/v1/admin/failed-requests")).toMatchObject({ requests: [] });
});

test.runIf(isProven)("serves each of them, and prints their names", async () => {
  expect(up.output()).toContain(`Models: ${models.join(", ")}\n`);
  const chat = await call("/v1/compat/chat/completions", {
    model: models[0],
    temperature: 0,
    max_tokens: 20,
    messages: [{ role: "user", content: "Tell me the capital of France." }],
  });
  expect(await chat.json()).toMatchObject({ choices: [{ message: { content: expect.stringContaining("Paris") } }] });
  for (const model of models.slice(1)) {
    const sound = await call("/v1/audio/speech", { model, input: "Good morning.", response_format: "wav" });
    expect(sound.status, model).toBe(200);
    // Half a second of 16-bit samples at least.
    expect((await sound.arrayBuffer()).byteLength).toBeGreaterThan(16_000);
  }
});

test.runIf(isProven)("writes nothing into the folder of demo models that it was given", () => {
  expect(readdirSync(given).sort()).toEqual(["kokoro-82m", "piper-joe"]);
  expect(readdirSync(join(up.dataDir, "demo-models"))).toEqual([]);
  expect(existsSync(join(up.dataDir, "models"))).toBe(true);
});
