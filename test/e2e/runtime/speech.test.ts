import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { doesSoxRead, hasProgram, runProgram, wordShare } from "../../fakes/audio-tools.ts";
import { cachedModel } from "../../fakes/cached-models.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { sharedModel } from "../../fakes/shared-models.ts";
import { type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const piper = cachedModel("piper-joe", "speech of a Piper voice");
const kokoro = cachedModel("kokoro-82m", "speech of Kokoro's voices, and voices of one's own");
if (!isNightly) console.warn("NOT PROVEN here: speech of Kokoro's voices. npm run test:nightly does.");
const ears = sharedModel("whisper-tiny.en", "speech is understood again");
const text = "Please send the report to the office. The weather in Paris will be sunny on Thursday.";

const start = (path: string) =>
  startRuntime({ STOKER_MODEL_PATH: path, STOKER_GPU_LAYERS: "0", STOKER_CPUS: "2", STOKER_TASK: "" });

const speak = (runtime: RuntimeProcess, body: object, headers: Record<string, string> = {}) =>
  fetch(`${runtime.url}/v1/audio/speech`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

const bytesOf = async (answer: Response) => Buffer.from(await answer.arrayBuffer());

async function upload(runtime: RuntimeProcess, path: string, part: string, audio: Buffer) {
  const form = new FormData();
  form.append(part, new Blob([new Uint8Array(audio)]), "audio");
  return (await fetch(`${runtime.url}${path}`, { method: "POST", body: form })).json();
}

describe.runIf(piper)("a model server with a Piper voice", () => {
  let runtime: RuntimeProcess;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "stoker-speech-"));
    runtime = await start(piper ?? "");
  });
  afterAll(async () => {
    await runtime?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const tools: readonly (readonly [format: string, program: string, args: readonly string[]])[] = [
    ["mp3", "ffprobe", ["-v", "error", "-show_entries", "stream=codec_name"]],
    ["wav", "ffprobe", ["-v", "error", "-show_entries", "stream=codec_name"]],
    ["mp3", "sox", ["--i"]],
    ["flac", "flac", ["-t", "-s"]],
    ["opus", "opusinfo", []],
  ];
  it.each(tools)("speaks %s that %s reads without a complaint", async (format, program, args) => {
    const promise = `${format} of the speech task is read by ${program}`;
    if (!hasProgram(program, promise) || (program === "sox" && !doesSoxRead(format, promise))) return;
    const answer = await speak(runtime, { input: "Good morning.", response_format: format });
    expect(answer.status).toBe(200);
    const file = join(folder, `spoken.${format}`);
    writeFileSync(file, await bytesOf(answer));
    const said = runProgram(program, [...args, file]).toString();
    expect(said).not.toMatch(/error|invalid|corrupt/i);
  });

  it("sends the first sound before the last sentence is made, and counts characters as people do", async () => {
    const long = `${text} ${text} 😀`;
    const answer = await speak(runtime, { input: long, response_format: "pcm" }, { "x-stoker-request-id": "long" });
    expect(answer.headers.get("content-type")).toBe("audio/pcm");
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    const early = (await runtime.get("/usage/long")).body;
    expect(early.finished).toBe(false);
    expect(early.characters).toBeLessThan([...long].length);
    while (!(await reader.read()).done);
    await expect
      .poll(async () => (await runtime.get("/usage/long")).body, { timeout: 20_000 })
      .toMatchObject({ finished: true, characters: [...long].length });
  });

  it("speaks faster where it is asked to", async () => {
    const lengthAt = async (speed: number) =>
      (await bytesOf(await speak(runtime, { input: "Please send the report.", response_format: "pcm", speed }))).length;
    expect(await lengthAt(2)).toBeLessThan((await lengthAt(1)) * 0.75);
  });

  it("refuses what it cannot say, with the reason", async () => {
    const refused = async (body: object) => {
      const answer = await speak(runtime, body);
      return [answer.status, (await answer.json()).error.message];
    };
    expect(await refused({ input: "!!!" })).toEqual([400, "there is nothing in input that can be said"]);
    expect(await refused({ input: "hi", voice: "af_heart" })).toEqual([
      404,
      expect.stringContaining("there is no voice af_heart"),
    ]);
    expect((await refused({ input: "hi", language: "fr" }))[1]).toContain("speaks en, not fr");
  });

  it.runIf(ears)("is understood: at least four of five words come back from a speech recogniser", async () => {
    const spoken = await bytesOf(await speak(runtime, { input: text }));
    const listener = await start(ears ?? "");
    try {
      const { text: heard } = await upload(listener, "/v1/audio/transcriptions", "file", spoken);
      expect(wordShare(text, heard)).toBeGreaterThanOrEqual(0.8);
    } finally {
      await listener.stop();
    }
  });
});

describe.runIf(kokoro && isNightly)("a model server with Kokoro", () => {
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    runtime = await start(kokoro ?? "");
  });
  afterAll(() => runtime?.stop());

  it("makes a voice out of recordings: a low speaker's is lower than a high one's, and both can be spoken with", async () => {
    const record = async (voice: string) => {
      const spoken = await bytesOf(await speak(runtime, { input: "Good morning to you all.", voice }));
      const made = await upload(runtime, "/v1/audio/voices", "files", spoken);
      expect(made).toMatchObject({ kind: "blend", note: expect.stringContaining("no clone") });
      return made as { voice: string; measured: { median_pitch_hz: number } };
    };
    const low = await record("am_onyx");
    const high = await record("af_jessica");
    expect(high.measured.median_pitch_hz).toBeGreaterThan(low.measured.median_pitch_hz * 1.5);
    const again = await record(low.voice);
    expect(again.measured.median_pitch_hz).toBeLessThan(145);
  });

  it.runIf(ears)("is understood: at least four of five words come back from a speech recogniser", async () => {
    const short = "The weather in Paris will be sunny.";
    const spoken = await bytesOf(await speak(runtime, { input: short, voice: "af_heart" }));
    const listener = await start(ears ?? "");
    try {
      const { text: heard } = await upload(listener, "/v1/audio/transcriptions", "file", spoken);
      expect(wordShare(short, heard)).toBeGreaterThanOrEqual(0.8);
    } finally {
      await listener.stop();
    }
  });
});
