// The real vLLM as an instance: planned and run by the agent, adopted by the next one, behind the real edge and spine. The tests build
// on each other: one start takes a minute on two cores.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { readRecord, recordFile } from "../../fakes/engine-parser.ts";
import { isAlive } from "../../fakes/local-agent.ts";
import { sharedModel } from "../../fakes/shared-models.ts";
import { makeVllmInstance, patient, startLimitMs, type VllmInstance } from "../../fakes/vllm-instance.ts";
import { recordVllm, safetensorsOf, vllmEnv, vllmProgram } from "../../fakes/vllm-program.ts";
import { hasModel, modelFile } from "../runtime/runtime-process.ts";

const promise = "the plan, the life and the replies of a real vLLM";
const program = vllmProgram(promise);
const lora = sharedModel("smollm2-pirate-lora", "LoRA adapters of a real vLLM");
const id = "vllmInstance0001";
const adapter = "pirateAdapter001";
const environment = { STOKER_VLLM_BIN: program ?? "", STOKER_STOP_INSTANCES: "1", ...vllmEnv };
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Weather of a city",
    // Without it, vLLM holds a forced call to its name only. With one value, a small model finishes the call.
    strict: true,
    parameters: {
      type: "object",
      properties: { city: { type: "string", enum: ["Paris"] } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};

describe.runIf(program !== undefined && hasModel(promise))("vLLM", () => {
  let vllm: VllmInstance;
  let pid = 0;
  /** Seconds of the parts of its life, for the log of the run. */
  const took: Record<string, number> = {};

  const members = (leader: number) =>
    promisify(execFile)("pgrep", ["-s", String(leader)]).then(
      ({ stdout }) => stdout.trim().split("\n"),
      () => [],
    );

  beforeAll(async () => {
    vllm = await makeVllmInstance(id, await safetensorsOf(modelFile), {
      // Arguments of the allowlist, all in one start.
      extraArgs: [
        "--dtype=bfloat16",
        "--kv-cache-dtype=auto",
        "--max-num-batched-tokens=2048",
        "--enable-chunked-prefill",
        "--enable-auto-tool-choice",
      ],
    });
    const beganMs = performance.now();
    vllm.start([vllm.spec], environment);
    await vllm.isReady(1);
    took["start"] = (performance.now() - beganMs) / 1000;
    [pid = 0] = vllm.agent.pids();
    vllm.connect();
    vllm.serve("org/served");
  }, startLimitMs + 60_000);
  afterAll(async () => {
    process.stdout.write(`vLLM, in seconds: ${JSON.stringify(took)}\n`);
    await vllm?.close();
  });

  it("accepts the arguments and knows the parsers of the record that plans are held against at every change", async () => {
    expect(await recordVllm()).toEqual(readRecord(recordFile("vllm-0.32.0")));
  });

  it("replies whole and streamed alike, billed by its own count", async () => {
    const { status, body } = await vllm.chat({});
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.choices[0].message).toMatchObject({ role: "assistant", reasoning_content: null });
    expect(body.choices[0].message).not.toHaveProperty("reasoning");
    expect(body.usage).toMatchObject({ completion_tokens: 8 });
    const reply = await vllm.edge.post("/v1/chat/completions", {
      model: "org/model",
      max_tokens: 8,
      temperature: 0,
      stream: true,
      messages: [{ role: "user", content: "Count from one to five." }],
    });
    const events = (await reply.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
    const chunks = events.map((event) => JSON.parse(event.slice(6)));
    expect(chunks.map((chunk) => chunk.choices[0].delta?.content ?? "").join("")).toBe(body.choices[0].message.content);
    // Asked to count in every event, which the client did not ask for.
    expect(chunks.filter((chunk) => chunk.usage)).toHaveLength(1);
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: body.usage.prompt_tokens, completion_tokens: 8 });
    for (const line of vllm.lines())
      expect(line).toMatchObject({ source: "engine", inputTokens: body.usage.prompt_tokens });
  });

  it("calls tools with the parser of its template", async () => {
    const messages = [{ role: "user", content: "What is the weather in Paris?" }];
    const auto = await vllm.chat({ messages, tools: [weather], max_tokens: 40 });
    expect(auto.status, JSON.stringify(auto.body)).toBe(200);
    for (const choice of ["required", { type: "function", function: { name: "get_weather" } }]) {
      const forced = await vllm.chat({ messages, tools: [weather], tool_choice: choice, max_tokens: 200 });
      expect(forced.status, JSON.stringify(forced.body)).toBe(200);
      const [call] = forced.body.choices[0].message.tool_calls ?? [];
      expect(call, JSON.stringify(forced.body)).toMatchObject({ type: "function", function: { name: "get_weather" } });
      expect(JSON.parse(call.function.arguments)).toEqual({ city: "Paris" });
    }
  });

  it("holds its output to a form in every spelling, and refuses what it cannot", async () => {
    const said = async (body: object) => (await vllm.chat({ max_tokens: 24, ...body })).body.choices[0].message.content;
    expect(await said({ guided_choice: ["yes", "no"] })).toMatch(/^(yes|no)$/);
    expect(await said({ response_format: { type: "regex", regex: "[0-9]{3}" } })).toMatch(/^[0-9]{3}$/);
    expect(await said({ structured_outputs: { grammar: 'root ::= "abc" | "xyz"' } })).toMatch(/^(abc|xyz)$/);
    const schema = {
      type: "object",
      properties: { ok: { type: "boolean" } },
      required: ["ok"],
      additionalProperties: false,
    };
    expect(JSON.parse(await said({ guided_json: schema }))).toHaveProperty("ok");
    const bad = await vllm.chat({ structured_outputs: { regex: "[0-9" } });
    expect(bad).toMatchObject({ status: 400, body: { error: { type: "invalid_request_error" } } });
  });

  it("reports a prompt that does not fit by the code of every engine", async () => {
    const long = [{ role: "user", content: "word ".repeat(1500) }];
    expect(await vllm.chat({ messages: long })).toMatchObject({
      status: 400,
      body: { error: { code: "context_length_exceeded", param: "messages" } },
    });
  });

  it("runs no more at once than its batch, and its metrics have the names of every engine", async () => {
    const all = Array.from({ length: 5 }, () => vllm.chat({ max_tokens: 24, ignore_eos: true }));
    const over = Promise.all(all).then(() => true);
    const seen = new Set<number>();
    await vi.waitFor(
      async () => {
        seen.add(await vllm.metric("stoker_engine_requests_running"));
        expect(await Promise.race([over, false])).toBe(true);
      },
      { ...patient, interval: 100 },
    );
    expect((await Promise.all(all)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(Math.max(...[...seen].filter(Number.isFinite))).toBe(2);
    for (const name of ["requests_waiting_capacity", "requests_waiting_deferred", "preemptions_total"])
      expect(await vllm.metric(`stoker_engine_${name}`)).toBe(0);
    await vi.waitFor(
      async () => expect(await vllm.metric("stoker_engine_prompt_tokens_total")).toBeGreaterThan(0),
      patient,
    );
  });

  it("stops at once for a client that disconnects, billed by its count of the prompt and of what it generated", async () => {
    const exact = (await vllm.chat({})).body.usage.prompt_tokens;
    const gone = new AbortController();
    const reply = await vllm.endless(gone.signal);
    const reader = reply.body?.getReader();
    for (let i = 0; i < 5; i++) await reader?.read();
    const beganMs = performance.now();
    gone.abort();
    const line = await vllm.lineOf(reply);
    expect(line).toMatchObject({ outcome: "client_gone", source: "engine", inputTokens: exact });
    expect(line.outputTokens).toBeGreaterThan(0);
    expect(line.outputTokens).toBeLessThan(900);
    await vi.waitFor(async () => expect(await vllm.metric("stoker_engine_requests_running")).toBe(0), patient);
    took["hang-up"] = (performance.now() - beganMs) / 1000;
  });

  it("survives its agent, is adopted by the next one, and loads and unloads an adapter without a restart", async () => {
    await vllm.agent.kill("SIGKILL");
    expect(isAlive(pid)).toBe(true);
    const beganMs = performance.now();
    const adapters = lora === undefined ? [] : [{ id: adapter, weights: { localPath: lora, format: "lora" } }];
    vllm.start([{ ...vllm.spec, adapters }], environment);
    await vllm.isReady(2);
    took["adoption"] = (performance.now() - beganMs) / 1000;
    expect(vllm.agent.pids()).toEqual([pid]);
    vllm.connect();
    expect((await vllm.chat({})).status).toBe(200);
    if (lora === undefined) return;
    await vi.waitFor(() => expect(vllm.agent.log()).toContain('"msg":"adapter loaded"'), patient);
    vllm.serve(adapter);
    const pirate = await vllm.chat({ messages: [{ role: "user", content: "Hi" }], max_tokens: 16 });
    expect(pirate.body.choices[0].message.content).toMatch(/ahoy|arr|matey/i);
    vllm.serve("org/served");
  });

  it("ends with all its processes while a request runs, which is cut and billed first", async () => {
    const reply = await vllm.endless();
    const text = reply.text();
    expect((await members(pid)).length).toBeGreaterThan(1);
    const beganMs = performance.now();
    expect(await vllm.agent.kill("SIGTERM")).toBe(0);
    took["stop"] = (performance.now() - beganMs) / 1000;
    expect(await text).toContain('"error"');
    expect(await vllm.lineOf(reply)).toMatchObject({ endReason: "drained", source: "engine" });
    await vi.waitFor(async () => expect((await members(pid)).map(Number).filter(isAlive)).toEqual([]), patient);
  });

  it.each(["--quantization=bitsandbytes", "--quantization=gguf", "--enable-auto-tool-choice"])(
    "ends at its start with %s, which plans refuse or complete",
    async (arg) => {
      const folder = await safetensorsOf(modelFile);
      const env = { ...process.env, ...vllmEnv, VLLM_CPU_KVCACHE_SPACE: "1" };
      const run = promisify(execFile)(program ?? "", ["serve", folder, "--port", "1", arg], {
        env,
        timeout: startLimitMs,
      });
      const failure = await run.catch((error: { code?: unknown }) => error);
      expect(failure).toHaveProperty("code", 1);
    },
    startLimitMs + 10_000,
  );
});
