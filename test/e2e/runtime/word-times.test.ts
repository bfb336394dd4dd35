// When each word is said, by real weights whose decoder is made to give its cross attentions out. The reference was computed by
// other programs: test/fixtures/onnx/word-times.py.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sharedModel } from "../../fakes/shared-models.ts";
import { writeTimedWhisper } from "../../fakes/timed-whisper.ts";
import { type RuntimeProcess, startRuntime } from "./runtime-process.ts";

interface Timed {
  readonly word: string;
  readonly start: number;
  readonly end: number;
}

const model = sharedModel(
  "whisper-tiny.en",
  "word timestamps by a real model, as another program times the same words",
);
const references: Readonly<Record<string, readonly Timed[]>> = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../fixtures/onnx/word-times.json"), "utf8"),
);
const headerBytes = 44;
const rate = 16_000;

describe.runIf(model)("a model server with a speech recognition model that gives its cross attentions out", () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-timed-whisper-"));
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    const timed = join(folder, "whisper");
    writeTimedWhisper(model ?? "", timed);
    runtime = await startRuntime({ STOKER_MODEL_PATH: timed, STOKER_GPU_LAYERS: "0", STOKER_CPUS: "2" });
  });
  afterAll(async () => {
    await runtime?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const bytesOf = (file: string) => readFileSync(join(model ?? "", file));
  async function hear(wav: Buffer): Promise<{ text: string; duration: number; words: Timed[] }> {
    const form = new FormData();
    form.append("response_format", "verbose_json");
    form.append("timestamp_granularities[]", "word");
    form.append("file", new Blob([new Uint8Array(wav)]), "audio.wav");
    const answer = await fetch(`${runtime.url}/v1/audio/transcriptions`, { method: "POST", body: form });
    expect(answer.status).toBe(200);
    return (await answer.json()) as { text: string; duration: number; words: Timed[] };
  }

  it("returns each word of the transcript once, in order, within the sound, at the time another program finds", async () => {
    const found: boolean[] = [];
    for (const [file, reference] of Object.entries(references)) {
      const wav = bytesOf(file);
      const { text, duration, words } = await hear(wav);
      expect(words.map(({ word }) => word).join(" ")).toBe(text);
      expectInOrder(words, duration);
      expectWithinSound(words, wav);
      // One word or another may be heard as a different one by another processor.
      for (const wanted of reference)
        found.push(words.some(({ word, start }) => word === wanted.word && Math.abs(start - wanted.start) < 0.15));
    }
    expect(found.length).toBe(35);
    expect(found.filter(Boolean).length / found.length).toBeGreaterThanOrEqual(0.85);
  });

  it("does not count the silence before speech as the first word's", async () => {
    const wav = bytesOf("samples/report.wav");
    const seconds = 2;
    const later = Buffer.concat([
      wav.subarray(0, headerBytes),
      Buffer.alloc(seconds * rate * 2),
      wav.subarray(headerBytes),
    ]);
    later.writeUInt32LE(later.length - headerBytes, 40);
    const { duration, words } = await hear(later);
    expectInOrder(words, duration);
    expectWithinSound(words, later);
    expect(words[0]?.start).toBeGreaterThanOrEqual(seconds - 0.05);
  });
});

function expectInOrder(words: readonly Timed[], duration: number): void {
  const times = words.flatMap(({ start, end }) => [start, end]);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(times[0]).toBeGreaterThanOrEqual(0);
  expect(times.at(-1)).toBeLessThanOrEqual(duration);
}

/** The first word begins with the first sound, and the last one ends with the last. */
function expectWithinSound(words: readonly Timed[], wav: Buffer): void {
  const samples = new Int16Array(wav.buffer.slice(wav.byteOffset + headerBytes, wav.byteOffset + wav.length));
  const isSound = (sample: number) => Math.abs(sample) > 1000;
  expect(Math.abs((words[0]?.start ?? 0) - samples.findIndex(isSound) / rate)).toBeLessThan(0.15);
  expect(Math.abs((words.at(-1)?.end ?? 0) - samples.findLastIndex(isSound) / rate)).toBeLessThan(0.25);
}
