// Client libraries of other people's making, of two languages, against a running control plane and agent.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EveryTaskEngine, measuredBlend } from "../../fakes/every-task-engine.ts";
import { type EveryTaskStack, names, startEveryTaskStack } from "../../fakes/every-task-stack.ts";
import type { Stack } from "../../fakes/processes.ts";
import { hasModule, runPython } from "../../fakes/python.ts";
import { hasPackage } from "../../fakes/test-npm.ts";
import { startWebhookReceiver } from "../../fakes/webhook-receiver.ts";
import { driveAnthropic } from "./drive-anthropic.ts";
import { driveCommandLine } from "./drive-command-line.ts";
import { driveElevenlabs, elevenlabs } from "./drive-elevenlabs.ts";
import { driveOpenai } from "./drive-openai.ts";
import { askEverything, checks, neverServed, servedByGroup } from "./schemathesis.ts";

/** Cases of an operation, beside the bounds of each field. */
const examples = 20;
/** Of operations that ask a model: what the others meet is met by few of them. */
const examplesOfInference = 40;

const [hasAnthropic, hasOpenai, hasElevenlabs, hasJwt, hasSchemathesis] = await Promise.all(
  ["anthropic", "openai", "elevenlabs", "jwt", "schemathesis"].map(hasModule),
);
for (const [name, has] of Object.entries({
  anthropic: hasAnthropic,
  openai: hasOpenai,
  elevenlabs: hasElevenlabs,
  PyJWT: hasJwt,
  schemathesis: hasSchemathesis,
})) {
  if (!has) console.warn(`\n*** NOT PROVEN with Python's ${name}: it is missing; scripts/test brings it\n`);
}
const hasElevenlabsOfNpm = hasPackage(elevenlabs);
if (!hasElevenlabsOfNpm)
  console.warn(`\n*** NOT PROVEN with npm's ${elevenlabs}: it is missing; npm run test:nightly brings it\n`);

describe("clients of other people's making", () => {
  let served: EveryTaskStack;
  let engine: EveryTaskEngine;
  let stack: Stack;
  beforeAll(async () => {
    served = await startEveryTaskStack({
      controlPlaneEnv: { STOKER_BATCH_CLOCKS: "0.1", STOKER_WEBHOOK_ALLOW_PRIVATE: "1" },
    });
    ({ engine, stack } = served);
  }, 180_000);
  afterAll(() => served?.stop());

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
      `OpenAI's, ${whose}: chat, responses, streams, tools, JSON schemas, completions, embeddings, audio, images, files and batches work unchanged`,
      { timeout: 150_000 },
      async () => {
        const picture = Buffer.from("a picture").toString("base64");
        expect(await run()).toEqual({
          chat: ["The answer is 42.", 4],
          stream: ["The answer is 42.", 4],
          response: ["The answer is 42.", "completed", 4],
          responses: ["The answer is 42.", "The answer is 42."],
          continued: true,
          read: ["The answer is 42.", ["message"]],
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

  const anthropic: typeof openai = [
    ["Python's", hasAnthropic, () => drive("drive_anthropic.py")],
    ["npm's", true, () => driveAnthropic(stack, names)],
  ];
  for (const [whose, isThere, run] of anthropic)
    it.runIf(isThere)(
      `Anthropic's, ${whose}: messages, streams, tools, thinking, counts of tokens, models and errors work unchanged`,
      { timeout: 150_000 },
      async () => {
        const { stream, ...rest } = await run();
        const [pieces, ...whole] = stream as [string[], ...unknown[]];
        // Tokens that arrive together are one event.
        expect(pieces.length).toBeGreaterThan(1);
        expect([pieces.join(""), ...whole]).toEqual(["The answer is 42.", "The answer is 42.", "end_turn", 7, 4]);
        expect(rest).toEqual({
          message: ["The answer is 42.", "end_turn", 7, 4],
          count: 7,
          stopped: ["The answer", "stop_sequence", " is"],
          tool: ["weather", { city: "Paris" }, "tool_use"],
          result: "It was: 21 C",
          thinking: ["Let me see.", "The answer is 42."],
          thought: "It was: Let me see.",
          models: Object.values(names).sort(),
          model: names.CHAT,
          limits: true,
          unknown: [404, "not_found_error"],
          stranger: [401, "authentication_error"],
        });
      },
    );

  const speaking: readonly (readonly [string, boolean | undefined, () => Promise<Record<string, unknown>>])[] = [
    ["Python's", hasElevenlabs, () => drive("drive_elevenlabs.py")],
    ["npm's", hasElevenlabsOfNpm, () => driveElevenlabs(stack, names)],
  ];
  for (const [whose, isThere, run] of speaking)
    it.runIf(isThere)(
      `ElevenLabs', ${whose}: voices are made, listed, changed, spoken in and deleted, formats kept to, and its errors read`,
      { timeout: 150_000 },
      async () => {
        const [voices, formats] = [engine.voices.length, engine.formats.length];
        expect(await run()).toEqual({
          made: [20, false],
          listed: [["Ada", "calm"]],
          got: "Ada",
          updated: "ok",
          renamed: ["Ada at work", "brisk"],
          whole: "RIFF said",
          stream: "RIFF said",
          default: "RIFF said",
          opus: "RIFF said",
          "other format": 422,
          twice: [409, "name_taken"],
          deleted: "ok",
          gone: [404, "voice_not_found"],
        });
        expect(engine.voices.slice(voices)).toEqual([measuredBlend, measuredBlend, "af_heart", "af_heart"]);
        expect(engine.formats.slice(formats)).toEqual(["mp3", "pcm", "mp3", "opus"]);
      },
    );

  it("the command line: models are asked, listed and told of, keys and tokens made, use shown, batches run, calls trusted", {
    timeout: 150_000,
  }, async () => {
    expect(await driveCommandLine(stack, names)).toEqual({
      whole: "The answer is 42.\n",
      streamed: "The answer is 42.\n",
      spoken: [true, "RIFF said"],
      list: 1,
      info: true,
      scoped: [true, "The answer is 42.\n"],
      usage: true,
      ended: [true, 401],
      batch: "ID is completed: 2 of 2 done, 0 failed",
      results: ["a", "b"],
      queued: "queued",
      told: "succeeded",
      genuine: true,
      changed: true,
      called: true,
    });
  });

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

  /** What stands of an account for its paths and bodies: a voice, a file, a response, and somebody to call. */
  async function realOf(key: string, callback: string): Promise<Record<string, string>> {
    const put = async (path: string, fields: readonly (readonly [string, string | Blob])[]) => {
      const form = new FormData();
      for (const [name, value] of fields) form.append(name, value);
      const headers = { authorization: `Bearer ${key}` };
      const answer = await fetch(`${stack.url}${path}`, { method: "POST", headers, body: form });
      const body = (await answer.json()) as { readonly voice_id: string; readonly id: string };
      expect(answer.status, JSON.stringify(body)).toBe(200);
      return body;
    };
    const voice = await put("/v1/voices/add", [
      ["name", "Ada"],
      ["files", new Blob(["RIFF a recording"], { type: "audio/wav" })],
    ]);
    const body = { model: names.CHAT, messages: [{ role: "user", content: "Hello" }], max_tokens: 4 };
    const line = { custom_id: "1", method: "POST", url: "/v1/chat/completions", body };
    const file = await put("/v1/files", [
      ["purpose", "batch"],
      ["file", new Blob([JSON.stringify(line)])],
    ]);
    const response = await fetch(`${stack.url}/v1/responses`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: names.CHAT, input: "Hello", max_output_tokens: 4, store: true, background: true }),
    });
    const { id: RESPONSE } = (await response.json()) as { readonly id: string };
    expect(response.status).toBe(200);
    const real = { INFERRING_KEY: key, VOICE: voice.voice_id, FILE: file.id, RESPONSE, CALLBACK: callback };
    return { ...names, ...real, DEPLOYS: JSON.stringify(served.deploys) };
  }

  /** Fails with what schemathesis told, which shows each failure with the request that makes it. */
  async function expectNoFault(
    who: string,
    keys: { readonly key: string; readonly inferring: string },
    { only, notTheirs = "-" }: { readonly only?: string; readonly notTheirs?: string },
  ) {
    const receiver = await startWebhookReceiver();
    const verdict = await askEverything({
      url: stack.url,
      ...(only === undefined ? {} : { only }),
      folder: stack.folder,
      phases: "examples,coverage,fuzzing",
      examples,
      examplesOfInference,
      real: { KEY: keys.key, ...(await realOf(keys.inferring, `${receiver.origin}/told`)) },
      limitMs: 2_400_000,
    }).finally(() => receiver.close());
    const { code, operations, cases, errors, answered, told } = verdict;
    expect({ code, errors }, told).toEqual({ code: 0, errors: [] });
    expect(cases).toBeGreaterThanOrEqual(operations * examples);
    // The tally may have a request to an operation that was not selected.
    const isSelected = (label: string) => only === undefined || new RegExp(only).test(label.split(" ")[1] ?? "");
    const unserved = neverServed(answered).filter((label) => isSelected(label) && !label.includes(notTheirs));
    expect(unserved).toEqual([]);
    const unexplained = Object.entries(answered).filter(([, one]) => one.unexplained > 0);
    expect(unexplained, "503 without Retry-After").toEqual([]);
    console.info(
      `schemathesis as ${who}: ${checks.join(", ")}: ${cases} cases over ${operations} operations; ` +
        `served: ${servedByGroup(answered)}`,
    );
    return operations;
  }

  it.runIf(hasSchemathesis)(
    "schemathesis: no operation answers with a server error or a status that it does not declare, and each that asks a model is served",
    { timeout: 2_500_000 },
    async () => {
      const keyOf = async (name: string): Promise<string> => {
        const person = { email: `${name}@example.com`, display_name: name, credit_usd: 1_000 };
        return (await stack.call("POST", "/v1/admin/accounts", person)).body.api_key;
      };
      const keys = { key: await keyOf("fuzz"), inferring: await keyOf("inferring") };
      // The deployments are the operator's.
      const notTheirs = "/v1/inference/deploy/";
      expect(await expectNoFault("a customer", keys, { notTheirs })).toBeGreaterThan(140);
    },
  );

  it.runIf(hasSchemathesis)("schemathesis: nor does one of the operator's", { timeout: 2_500_000 }, async () => {
    const only = "^/v1/(admin|inference/deploy)/";
    const keys = { key: stack.apiKey, inferring: stack.apiKey };
    expect(await expectNoFault("the operator", keys, { only })).toBeGreaterThan(40);
  });
});
