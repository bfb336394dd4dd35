import { readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasProgram, runProgram, wordShare } from "../../fakes/audio-tools.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const model = sharedModel("whisper-tiny.en", "transcription by a real model, as its reference says");
const samples: { file: string; seconds: number; reference_fp32: string }[] = model ? referenceOf(model).samples : [];
const hasFfmpeg = hasProgram("ffmpeg", "audio other than WAV is heard");

describe.runIf(model)("a model server with a speech recognition model", () => {
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    runtime = await startRuntime({ STOKER_MODEL_PATH: model ?? "", STOKER_GPU_LAYERS: "0", STOKER_CPUS: "2" });
  });
  afterAll(() => runtime?.stop());

  const bytesOf = (file: string) => readFileSync(join(model ?? "", file));
  async function ask(
    path: string,
    audio: Buffer | undefined,
    fields: Readonly<Record<string, string>> = {},
    headers: Readonly<Record<string, string>> = {},
  ) {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    if (audio) form.append("file", new Blob([new Uint8Array(audio)]), "audio");
    const answer = await fetch(`${runtime.url}/v1/audio/${path}`, { method: "POST", body: form, headers });
    return { status: answer.status, units: answer.headers.get("x-stoker-units"), text: await answer.text() };
  }

  it("hears at least four of five words of every sample, counts the audio and times its segments", async () => {
    for (const { file, seconds, reference_fp32: reference } of samples) {
      const { status, units, text } = await ask("transcriptions", bytesOf(file), { response_format: "verbose_json" });
      expect(status).toBe(200);
      const body = JSON.parse(text);
      expect(wordShare(reference, body.text)).toBeGreaterThanOrEqual(0.8);
      expect(body.duration).toBeCloseTo(seconds, 1);
      expect(Number(/^audio_ms=(\d+)$/.exec(units ?? "")?.[1]) / 1000).toBeCloseTo(seconds, 1);
      const [first] = body.segments;
      expect(first.start).toBe(0);
      expect(first.end).toBeGreaterThan(seconds / 2);
      expect(first.end).toBeLessThanOrEqual(seconds + 0.5);
    }
  });

  it("streams the text of each segment, and then all of it as without `stream`", async () => {
    const audio = bytesOf(samples[0]?.file ?? "");
    const [whole, streamed] = await Promise.all([
      ask("transcriptions", audio),
      ask("transcriptions", audio, { stream: "true" }),
    ]);
    const events = streamed.text
      .trimEnd()
      .split("\n\n")
      .map((frame) => JSON.parse(frame.slice("data: ".length)));
    const { text } = JSON.parse(whole.text);
    expect(events.at(-1)).toMatchObject({ type: "transcript.text.done", text });
    const deltas = events.slice(0, -1);
    expect(deltas.length).toBeGreaterThan(0);
    expect(deltas.map(({ delta }) => delta).join("")).toBe(text);
    expect((await ask("transcriptions", audio, { stream: "true", response_format: "srt" })).status).toBe(422);
  });

  it.runIf(hasFfmpeg)("hears the same in a container whose index stands at its end", async () => {
    const [fox] = samples;
    const wav = bytesOf(fox?.file ?? "");
    const coded = join(tmpdir(), `stoker-heard-${process.pid}.m4a`);
    try {
      runProgram("ffmpeg", ["-v", "error", "-y", "-i", "pipe:0", "-c:a", "aac", coded], wav);
      const { text } = await ask("transcriptions", readFileSync(coded), { response_format: "text" });
      expect(wordShare(fox?.reference_fp32 ?? "", text)).toBeGreaterThanOrEqual(0.8);
    } finally {
      rmSync(coded, { force: true });
    }
  });

  it("hears a recording longer than its window to the end", async () => {
    const headless = samples.map(({ file }) => bytesOf(file).subarray(44));
    const once = Buffer.concat(headless.flatMap((part) => [part, Buffer.alloc(32_000)]));
    const header = bytesOf(samples[0]?.file ?? "").subarray(0, 44);
    const file = Buffer.concat([header, once, once, once]);
    file.writeUInt32LE(file.length - 44, 40);
    const { status, text } = await ask("transcriptions", file, { response_format: "verbose_json" });
    expect(status).toBe(200);
    const { segments, text: heard } = JSON.parse(text);
    const spoken = samples.map(({ reference_fp32 }) => reference_fp32).join(" ");
    expect(wordShare(`${spoken} ${spoken} ${spoken}`, heard)).toBeGreaterThanOrEqual(0.7);
    expect(segments.at(-1).start).toBeGreaterThan(35);
    const starts = segments.map(({ start }: { start: number }) => start);
    expect(starts).toEqual(starts.toSorted((a: number, b: number) => a - b));
  });

  it.runIf(hasFfmpeg)(
    "transcribes one account's clip during six long recordings of another, in bounded memory",
    async () => {
      const seconds = 7_200;
      const silent = join(tmpdir(), `stoker-silent-${process.pid}.flac`);
      const source = ["-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", `${seconds}`];
      try {
        runProgram("ffmpeg", ["-v", "error", "-y", ...source, "-c:a", "flac", silent], Buffer.alloc(0));
        const file = readFileSync(silent);
        const memory = () =>
          Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${runtime.child.pid}/status`, "utf8"))?.[1]) * 1024;
        const before = memory();
        let most = before;
        let left = 6;
        const watch = setInterval(() => {
          most = Math.max(most, memory());
        }, 50);
        const flood = Array.from({ length: left }, async () => {
          const answer = await ask("transcriptions", file, {}, { "x-stoker-tenant": "flood" });
          left -= 1;
          return answer;
        });
        const clip = await ask("transcriptions", bytesOf(samples[0]?.file ?? ""), {}, { "x-stoker-tenant": "clip" });
        expect([clip.status, left]).toEqual([200, 6]);
        const answers = await Promise.all(flood);
        clearInterval(watch);
        expect(answers.map(({ status, units }) => [status, units])).toEqual(
          Array(6).fill([200, `audio_ms=${seconds * 1000}`]),
        );
        // Held whole, two hours are 230 MB: 1.4 GB in all.
        expect(most - before).toBeLessThan(300 * 1024 * 1024);
      } finally {
        rmSync(silent, { force: true });
      }
    },
  );

  it.runIf(hasFfmpeg)("refuses a file that holds more audio than was admitted", async () => {
    const long = join(tmpdir(), `stoker-long-${process.pid}.flac`);
    const source = ["-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", "90"];
    try {
      runProgram("ffmpeg", ["-v", "error", "-y", ...source, "-c:a", "flac", long], Buffer.alloc(0));
      const { status, text } = await ask("transcriptions", readFileSync(long), {}, { "x-stoker-max-audio-ms": "1000" });
      expect([status, JSON.parse(text).error.code]).toEqual([400, "audio_too_long"]);
    } finally {
      rmSync(long, { force: true });
    }
  });

  it("refuses what the model cannot do, and what is no audio, with a sentence about it", async () => {
    const wav = bytesOf(samples[0]?.file ?? "");
    const refusals = await Promise.all([
      ask("transcriptions", wav, { language: "de" }),
      ask("translations", wav),
      ask("transcriptions", wav, { response_format: "verbose_json", "timestamp_granularities[]": "word" }),
      ask("transcriptions", Buffer.from("not audio at all")),
    ]);
    expect(refusals.map(({ status }) => status)).toEqual([400, 400, 400, 400]);
    const messages = refusals.map(({ text }) => JSON.parse(text).error.message);
    expect(messages[0]).toContain("hears en alone");
    expect(messages[1]).toContain("does not translate");
    expect(messages[2]).toContain("cross-attention");
    expect(messages[3]).toContain("none of flac");
    expect((await ask("transcriptions", undefined)).status).toBe(422);
  });

  it("counts the seconds of audio in its metrics", async () => {
    const page = await (await fetch(`${runtime.url}/metrics`)).text();
    expect(Number(/stoker_runtime_audio_seconds_total ([\d.]+)/.exec(page)?.[1])).toBeGreaterThan(10);
    expect(page).toMatch(/gen_ai_server_request_duration_seconds_count\{gen_ai_operation_name="transcription"/);
  });
});
