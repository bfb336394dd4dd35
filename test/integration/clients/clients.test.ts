// Client libraries of other people's making, of two languages, against a running control plane and agent.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type EveryTaskEngine, measuredBlend, startEveryTaskEngine } from "../../fakes/every-task-engine.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { hasModule, runPython } from "../../fakes/python.ts";
import { driveOpenai } from "./drive-openai.ts";
import { askEverything, checks } from "./schemathesis.ts";

const models = {
  CHAT: ["fake/chat", "text-generation"],
  VECTORS: ["fake/vectors", "embeddings"],
  SPEECH: ["fake/speech", "text-to-speech"],
  HEARING: ["fake/hearing", "automatic-speech-recognition"],
  PICTURES: ["fake/pictures", "text-to-image"],
} as const;
const names = Object.fromEntries(Object.entries(models).map(([key, [name]]) => [key, name])) as Record<
  keyof typeof models,
  string
>;

/** At night also the bounds of every field are tried. */
const examples = isNightly ? 20 : 1;

const [hasOpenai, hasElevenlabs, hasJwt, hasSchemathesis] = await Promise.all(
  ["openai", "elevenlabs", "jwt", "schemathesis"].map(hasModule),
);
for (const [name, has] of Object.entries({
  openai: hasOpenai,
  elevenlabs: hasElevenlabs,
  PyJWT: hasJwt,
  schemathesis: hasSchemathesis,
})) {
  if (!has) console.warn(`\n*** NOT PROVEN with Python's ${name}: it is missing; scripts/test brings it\n`);
}

describe("clients of other people's making", () => {
  let engine: EveryTaskEngine;
  let stack: Stack;
  beforeAll(async () => {
    engine = await startEveryTaskEngine(Object.values(models).map(([name]) => name));
    // What is asked for at random is looked for on no hub.
    stack = await startStack({
      agents: 1,
      controlPlaneEnv: { HF_HUB_OFFLINE: "1", STOKER_BATCH_CLOCKS: "0.1" },
      agentEnv: { HF_ENDPOINT: "http://127.0.0.1:1" },
    });
    for (const [name, task] of Object.values(models)) {
      const made = await stack.call("POST", "/v1/admin/external", { name, task, url: engine.origin });
      expect(made.status, JSON.stringify(made.body)).toBe(200);
      if (name !== names.CHAT) continue;
      const offer = { deploy_id: made.body.deploy_id, pricing: { input: 0, cached_input: 0, output: 20 } };
      const offered = await stack.call("PUT", `/v1/admin/models/${name}`, offer);
      expect(offered.status, JSON.stringify(offered.body)).toBe(200);
    }
    // All of them serve once their own paths answer.
    await vi.waitFor(
      async () => {
        for (const [model] of Object.values(models)) {
          const { status } = await stack.call("POST", "/v1/completions", { model, prompt: "x", max_tokens: 1 });
          expect(status, model).toBe(200);
        }
      },
      { timeout: 60_000, interval: 200 },
    );
  }, 180_000);
  afterAll(async () => {
    await stack?.stop();
    await engine?.close();
  });

  async function drive(script: string): Promise<Record<string, unknown>> {
    const ran = await runPython([join(import.meta.dirname, script)], {
      limitMs: 120_000,
      env: { ...names, BASE_URL: stack.url, API_KEY: stack.apiKey, ENGINE: engine.origin },
    });
    expect(ran.code, `${ran.stderr}\n${ran.stdout}`).toBe(0);
    return JSON.parse(ran.stdout.trim().split("\n").at(-1) ?? "") as Record<string, unknown>;
  }

  const openai: readonly (readonly [string, boolean | undefined, () => Promise<Record<string, unknown>>])[] = [
    ["Python's", hasOpenai, () => drive("drive_openai.py")],
    ["npm's", true, () => driveOpenai({ url: stack.url, apiKey: stack.apiKey, engine: engine.origin }, names)],
  ];
  for (const [whose, isThere, run] of openai)
    it.runIf(isThere)(
      `OpenAI's, ${whose}: chat, streams, tools, JSON schemas, completions, embeddings, audio, images, files and batches work unchanged`,
      { timeout: 150_000 },
      async () => {
        const picture = Buffer.from("a picture").toString("base64");
        expect(await run()).toEqual({
          chat: ["The answer is 42.", 4],
          stream: ["The answer is 42.", 4],
          tool: ["weather", { city: "Paris" }, "tool_calls"],
          schema: ["Paris", 2],
          completion: "The answer is 42.",
          models: Object.values(names).sort(),
          vectors: [
            [0.25, -0.5, 1],
            [0.25, -0.5, 1],
          ],
          speech: "RIFF said",
          transcription: "Hello World",
          translation: "Hello World",
          picture,
          edited: picture,
          varied: picture,
          file: ["requests.jsonl", "batch", true],
          content: true,
          batch: ["completed", 3, 2, 1, { of: "tests" }],
          output: [
            ["c1", "The answer is 42."],
            ["c3", "The answer is 42."],
          ],
          errors: [["c2", 422]],
          cancelling: "cancelling",
          cancelled: ["cancelled", 200, true],
          batches: true,
          files: ["requests.jsonl", "requests.jsonl"],
          deleted: [true, true],
          gone: 404,
          unknown: [404, "model_not_found"],
        });
      },
    );

  it.skipIf(!hasElevenlabs)(
    "ElevenLabs': voices are made, listed, changed, spoken in and deleted, and its errors read",
    { timeout: 150_000 },
    async () => {
      const before = engine.voices.length;
      expect(await drive("drive_elevenlabs.py")).toEqual({
        made: [20, false],
        listed: [["Ada", "calm"]],
        got: "Ada",
        updated: "ok",
        renamed: ["Ada at work", "brisk"],
        whole: "RIFF said",
        stream: "RIFF said",
        default: "RIFF said",
        twice: [409, "name_taken"],
        deleted: "ok",
        gone: [404, "voice_not_found"],
      });
      expect(engine.voices.slice(before)).toEqual([measuredBlend, measuredBlend, "af_heart"]);
    },
  );

  it.runIf(hasJwt)(
    "PyJWT: a scoped token made with it works within its models, time and budget, and one of the server's is read by it",
    { timeout: 150_000 },
    async () => {
      const invalid = [401, "invalid_api_key"];
      expect(await drive("drive_jwt.py")).toEqual({
        used: [[200], [200], [200]],
        listed: [names.CHAT],
        "other model": [[403, "model_not_allowed"], [200]],
        "other route": [403, "scope_not_allowed"],
        expired: invalid,
        "no end": invalid,
        "more than a year": invalid,
        "another secret": invalid,
        "another algorithm": [invalid, invalid],
        "another account": invalid,
        "another payload": invalid,
        limit: [true, [402, "insufficient_quota"]],
        inspected: [200, [names.CHAT], 0.0002, true, true],
        read: [true, true, [names.CHAT], true, 1],
        "server's own": [200],
      });
    },
  );

  /** Fails with what schemathesis told, which shows each failure with the request that makes it. */
  async function expectNoFault(who: string, asked: Pick<Parameters<typeof askEverything>[0], "key" | "only">) {
    const verdict = await askEverything({
      ...asked,
      url: stack.url,
      folder: stack.folder,
      phases: isNightly ? "coverage,fuzzing" : "fuzzing",
      examples,
      limitMs: isNightly ? 2_400_000 : 200_000,
    });
    const { code, operations, cases, errors, told } = verdict;
    expect({ code, errors }, told).toEqual({ code: 0, errors: [] });
    expect(cases).toBeGreaterThanOrEqual(operations * examples);
    console.info(`schemathesis as ${who}: ${checks.join(", ")}: ${cases} cases over ${operations} operations`);
    return operations;
  }

  it.skipIf(!hasSchemathesis)(
    "schemathesis: no operation answers with a server error or a status that it does not declare",
    { timeout: isNightly ? 2_500_000 : 230_000 },
    async () => {
      const person = { email: "fuzz@example.com", display_name: "fuzz", credit_usd: 100 };
      const { body } = await stack.call("POST", "/v1/admin/accounts", person);
      expect(await expectNoFault("a customer", { key: body.api_key })).toBeGreaterThan(140);
    },
  );

  it.runIf(hasSchemathesis && isNightly)(
    "schemathesis: nor does one of the operator's",
    { timeout: 2_500_000 },
    async () => {
      const only = "^/v1/admin/";
      expect(await expectNoFault("the operator", { key: stack.apiKey, only })).toBeGreaterThan(40);
    },
  );
});
