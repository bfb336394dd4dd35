// The lines that a model's record gives for a shell, and the CLI's words about models, against the real edge.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ada, apiKey, servedModel } from "../fakes/ports.ts";
import { hasCurl, recordOf, runLine } from "../fakes/shell-line.ts";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";

let tasks: TaskEdge;
let server: { url: string; apiKey: string };
const folder = mkdtempSync(join(tmpdir(), "stoker-cli-model-"));
beforeAll(async () => {
  tasks = await startTaskEdge();
  server = { url: tasks.edge.url, apiKey };
});
afterAll(async () => {
  await tasks?.close();
  rmSync(folder, { recursive: true, force: true });
});

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const text = { choices: [{ index: 0, text: " Paris.", finish_reason: "stop" }], usage };
const heard = { text: "Hello", duration: 1, segments: [], words: [] };
const labels = { results: [{ label: "positive", score: 0.9 }], usage };

/** What the engine is told to answer, by task, and what the answer then shows. */
const answers: readonly (readonly [task: string, told: object | undefined, shown: string])[] = [
  ["text-generation", text, " Paris."],
  ["embeddings", { data: [{ embedding: [0.5] }, { embedding: [0.25] }], usage }, "0.25"],
  ["reranker", { scores: [0.75, 0.25], usage }, "0.75"],
  ["automatic-speech-recognition", heard, "Hello"],
  ["text-to-speech", undefined, "data:audio/wav;base64,"],
  ["text-to-image", { data: [{ b64_json: "cGlj" }] }, "data:image/png;base64,"],
  ["text-classification", labels, "positive"],
  ["zero-shot-classification", labels, "positive"],
  ["token-classification", { results: [], usage }, "results"],
  ["fill-mask", { results: [], usage }, "results"],
  ["question-answering", { answer: "Paris", score: 0.5, start: 0, end: 5, usage }, "Paris"],
  ["image-classification", labels, "positive"],
  ["zero-shot-image-classification", labels, "positive"],
  ["object-detection", { results: [], usage }, "results"],
];

function offer(task: string, told: object | undefined): void {
  tasks.offer({ task });
  if (told) tasks.json(told);
  else tasks.engine.answer({ contentType: "audio/wav", pieces: ["RIFF of a voice"] });
}

describe("a model's record", () => {
  it.runIf(hasCurl).each(answers)("of %s has a curl line that runs as it stands", async (task, told, shown) => {
    offer(task, told);
    const { curl_inv } = await recordOf(server, "org/model");
    const { out, err, code } = await runLine(curl_inv, server);
    expect(code, err).toBe(0);
    expect(JSON.parse(out).inference_status, out).toMatchObject({ status: "succeeded" });
    expect(out).toContain(shown);
  });

  // The tasks of the models that come with Stoker: each start of the command line takes a second of a busy machine.
  it.each(answers.slice(0, 6).filter(([task]) => task !== "reranker"))(
    "of %s has a command line that runs as it stands",
    async (task, told, shown) => {
      offer(task, told);
      const { cmdline_inv } = await recordOf(server, "org/model");
      const { out, err, code } = await runLine(cmdline_inv, server);
      expect(code, err).toBe(0);
      expect(out).toContain(shown);
    },
  );

  it.runIf(hasCurl)("of speech recognition sends one second of sound", async () => {
    offer("automatic-speech-recognition", heard);
    const { curl_inv } = await recordOf(server, "org/model");
    expect((await runLine(curl_inv, server)).code).toBe(0);
    const file = (await tasks.askedForm()).get("file") as File;
    const bytes = Buffer.from(await file.arrayBuffer());
    expect([bytes.toString("latin1", 0, 4), bytes.readUInt32LE(4), bytes.length]).toEqual(["RIFF", 32_036, 32_044]);
    expect([bytes.readUInt32LE(24), bytes.readUInt16LE(22), bytes.readUInt32LE(40)]).toEqual([16_000, 1, 32_000]);
  });
});

const stoker = (line: string) => runLine(`stoker ${line}`, server);

describe("the command line", () => {
  it("saves speech to a file and prints a short form", async () => {
    offer("text-to-speech", undefined);
    const to = join(folder, "said.{EXT}");
    const { out, err, code } = await stoker(`infer -m org/model -i text=Hi -o 'audio=${to}'`);
    expect(code, err).toBe(0);
    expect(readFileSync(join(folder, "said.wav"), "utf8")).toBe("RIFF of a voice");
    expect(out).toContain("15 bytes");
  });

  it("shows the calls, fields and versions of a model", { timeout: 120_000 }, async () => {
    tasks.offer({});
    const info = await stoker("model info org/model");
    expect([info.code, info.err]).toEqual([0, ""]);
    expect(info.out).toContain("API variants: default, compat-completions, compat-chat-completions, ai-sdk");
    expect(info.out).toContain("curl -sS");
    expect((await stoker("model schema org/model openai-completions")).out).toMatch(/^temperature .* >= 0, <= 2$/m);
    expect((await stoker("model versions org/model")).out).toContain("v1");
    expect((await stoker("model info org/none")).code).toBe(4);
  });

  it("lists prices in the unit of each model", { timeout: 120_000 }, async () => {
    const tokens = { input: 0n, cachedInput: 0n, output: 0n };
    const units = { characters: 0n, audio: 0n, images: 0n, imageUnit: 0n };
    const paidIn = (name: string, changed: Partial<typeof units>) =>
      servedModel({ name, contextLength: 0, rates: { ...tokens, units: { ...units, ...changed } } });
    const usd = 1_000_000_000n;
    tasks.edge.models.models = [
      servedModel({ name: "org/writes", contextLength: 4096 }),
      paidIn("org/speaks", { characters: 2n * usd }),
      paidIn("org/hears", { audio: usd / 10n }),
      paidIn("org/paints", { images: (usd / 1000n) * 1_000_000n }),
    ];
    const { out, err } = await stoker("model list");
    expect(out.replaceAll(/ +$/gm, ""), err).toMatch(/^org\/writes +4096 +0\.02 +0\.04$/m);
    expect(out).toMatch(/^org\/speaks +2 per 1M characters *$/m);
    expect(out).toMatch(/^org\/hears +0\.1 per 1000 seconds *$/m);
    expect(out).toMatch(/^org\/paints +0\.001 per image *$/m);
  });

  it("lists, describes and publishes own models", { timeout: 120_000 }, async () => {
    tasks.edge.models.models = [servedModel({ name: "ada/own", owner: ada.account, isPublic: false })];
    expect((await stoker("model list --visibility private")).out).toMatch(/ada\/own +text-generation/);
    const said: unknown[] = [];
    tasks.edge.deps.modelRecords.change = async (_editor, { name }, change) => void said.push({ name, ...change });
    const described = await stoker("model meta ada/own --description 'It is small' --tag fast --deprecated 2027-01-31");
    expect([described.err, described.code]).toEqual(["", 0]);
    expect(said).toEqual([
      { name: "ada/own", description: "It is small", tags: ["fast"], deprecatedAtMs: Date.UTC(2027, 0, 31) },
    ]);
    expect((await stoker("model update ada/own --public")).out).toBe("ada/own is now public\n");
    expect((await stoker("model update ada/own")).code).toBe(2);
    expect((await stoker("model delete ada/own --of ALL --yes")).out).toBe("ada/own deleted\n");
  });
});
