import { describe, expect, test } from "vitest";
import { heldRecording } from "../../../../runtime/audio/recording.ts";
import { toPcm16 } from "../../../../runtime/audio/wav.ts";
import { asTenant } from "../../../../runtime/batch/tenant.ts";
import { inTurns } from "../../../../runtime/tasks/transcribe/open-transcription.ts";
import type { HearingAsk, Recogniser } from "../../../../runtime/tasks/transcribe/recogniser.ts";
import { renderTranscript } from "../../../../runtime/tasks/transcribe/render.ts";
import { readTranscription } from "../../../../runtime/tasks/transcribe/request.ts";
import { cutSegments } from "../../../../runtime/tasks/transcribe/segments.ts";
import { quietestCut, type TranscribeAsk, transcribe } from "../../../../runtime/tasks/transcribe/transcribe.ts";
import { withoutSilence } from "../../../../runtime/tasks/transcribe/words.ts";

const begin = 1000;
/** Seconds -> the token that tells them. */
const at = (seconds: number) => begin + Math.round(seconds / 0.02);
const facts = { timestampBegin: begin, tokenSeconds: 0.02, startsAt: 60, seconds: 30 };
const cut = (...tokens: number[]) => cutSegments({ tokens, starts: undefined }, facts);
const plain = (found: ReturnType<typeof cut>) =>
  found.segments.map(({ start, end, tokens }) => [start, end, ...tokens.map(({ id }) => id)]);

describe("the tokens of a window", () => {
  test("become segments in the time of the recording", () => {
    const found = cut(at(0), 1, 2, at(2), at(2.5), 3, at(4));
    expect(plain(found)).toEqual([
      [60, 62, 1, 2],
      [62.5, 64, 3],
    ]);
    expect(found.nextAt).toBe(90);
  });

  test("start the next window at the end of the last whole segment when they end in the middle of one", () => {
    const found = cut(at(0), 1, at(20), at(21), 2, 3);
    expect(plain(found)).toEqual([[60, 80, 1]]);
    expect(found.nextAt).toBe(80);
  });

  test("form one segment up to the window's end without a further timestamp", () => {
    expect(plain(cut(at(1), 1, 2))).toEqual([[61, 90, 1, 2]]);
    expect(plain(cut(1, 2))).toEqual([[60, 90, 1, 2]]);
    expect(cut().nextAt).toBe(90);
  });

  test("always advance the recording, also when the model repeats second 0", () => {
    expect(cut(at(0), at(0), 1, 2).nextAt).toBeGreaterThan(60);
  });
});

test("end in the quietest moment of a window's last third, except in the last window", () => {
  const rate = 100;
  const window = new Float32Array(3000).fill(0.5);
  window.fill(0, 500, 600);
  window.fill(0, 2400, 2450);
  const length = quietestCut(window, rate);
  expect(length).toBeGreaterThanOrEqual(2400);
  expect(length).toBeLessThanOrEqual(2450);
});

describe("the words of a segment", () => {
  const rate = 1000;
  const window = new Float32Array(10 * rate).fill(0.001);
  window.fill(0.5, 3 * rate, 6 * rate);
  // Softer than the vowel after it, and part of the word.
  window.fill(0.05, 2.9 * rate, 3 * rate);
  const heard = { window, rate, startsAt: 100 };
  const words = [
    { word: "one", start: 100, end: 104 },
    { word: "two", start: 104, end: 105 },
    { word: "three", start: 105, end: 109 },
  ];

  test("begin and end with the sound, and meet at the model's time", () => {
    const found = withoutSilence(words, heard);
    expect(found.map(({ word }) => word)).toEqual(["one", "two", "three"]);
    expect(found[0]?.start).toBeCloseTo(102.9, 1);
    expect(found.map(({ start }) => start).slice(1)).toEqual([104, 105]);
    expect(found.map(({ end }) => end).slice(0, 2)).toEqual([104, 105]);
    expect(found[2]?.end).toBeCloseTo(106, 1);
  });

  test("keep the model's times where no sound stands out, and where a word has no length", () => {
    const [first] = words;
    const even = { ...heard, window: new Float32Array(10 * rate).fill(0.2) };
    expect(withoutSilence(words, even)).toEqual(words);
    expect(withoutSilence(words, { ...heard, window: new Float32Array(10 * rate) })).toEqual(words);
    expect(withoutSilence([{ word: "so", start: 109.9, end: 109.9 }], heard)).toEqual([
      { word: "so", start: 109.9, end: 109.9 },
    ]);
    expect(withoutSilence(first ? [first] : [], heard)[0]).toMatchObject({ end: 104 });
    expect(withoutSilence([], heard)).toEqual([]);
  });
});

describe("a long recording", () => {
  const ask: TranscribeAsk = {
    language: undefined,
    task: "transcribe",
    prompt: "Names",
    temperature: 0,
    wantsWords: true,
    windowSeconds: 30,
  };
  const rate = 100;
  const words = ["", " one", " two", "tieth", " three"];
  function scripted(answers: number[][], asks: HearingAsk[]): Recogniser {
    return {
      rate,
      windowSeconds: 30,
      languages: ["en", "de"],
      canTranslate: true,
      hasWordTimes: true,
      timestampBegin: begin,
      tokenSeconds: 0.02,
      maxPromptTokens: 223,
      tokenize: () => [7],
      textOf: (tokens) => tokens.map((token) => words[token] ?? "").join(""),
      detectLanguage: async () => "de",
      hear: async (_, one) => {
        asks.push(one);
        const tokens = answers[asks.length - 1] ?? [];
        return { tokens, starts: tokens.map((_token, index) => index) };
      },
      close: async () => {},
    };
  }
  const recordingOf = (samples: Float32Array) => heldRecording(rate, [toPcm16(samples)]);
  const sound = () => recordingOf(new Float32Array(70 * rate).fill(0.5));

  test("is transcribed window by window, with the prompt only before the first, in the detected language", async () => {
    const asks: HearingAsk[] = [];
    const answers = [
      [at(0), 1, at(2)],
      [at(0), 2, 3, at(3)],
      [at(0), 4, at(1)],
    ];
    const parts: [text: string, windows: number][] = [];
    const note = ({ text }: { text: string }) => parts.push([text, asks.length]);
    const found = await transcribe(scripted(answers, asks), sound(), ask, new AbortController().signal, note);
    // Each part is reported before the next window is transcribed.
    expect(parts).toEqual([
      [" one", 1],
      [" twotieth", 2],
      [" three", 3],
    ]);
    expect(found).toMatchObject({ text: "one twotieth three", language: "de", seconds: 70 });
    expect(asks.map(({ prompt }) => prompt)).toEqual([[7], [], []]);
    expect(asks.every(({ language }) => language === "de")).toBe(true);
    expect(found.words?.map(({ word }) => word)).toEqual(["one", "twotieth", "three"]);
    expect(found.segments.every(({ start, end }, index) => end >= start && start >= index * 20)).toBe(true);
  });

  test("stops when its request ends", async () => {
    const gone = new AbortController();
    const asks: HearingAsk[] = [];
    const model = scripted([], asks);
    const hear: Recogniser["hear"] = (...given) => {
      gone.abort(new Error("gone"));
      return model.hear(...given);
    };
    await expect(transcribe({ ...model, hear }, sound(), ask, gone.signal)).rejects.toThrow("gone");
    expect(asks).toHaveLength(1);
  });

  test("skips the model for silence", async () => {
    const asks: HearingAsk[] = [];
    const silent = recordingOf(new Float32Array(10 * rate));
    const found = await transcribe(scripted([], asks), silent, ask, new AbortController().signal);
    expect(found).toMatchObject({ text: "", segments: [], seconds: 10 });
    expect(asks).toEqual([]);
  });
});

describe("long recordings of one tenant", () => {
  const rate = 1_000;
  const ask: TranscribeAsk = {
    ...{ language: undefined, task: "transcribe", prompt: undefined },
    ...{ temperature: 0, wantsWords: false, windowSeconds: 30 },
  };

  test("let another tenant in after each of their windows", async () => {
    const heard: string[] = [];
    const eighth = Promise.withResolvers<void>();
    const model: Recogniser = {
      ...{ rate, windowSeconds: 30, languages: ["en"], canTranslate: false, hasWordTimes: false },
      ...{ timestampBegin: 100, tokenSeconds: 0.02, maxPromptTokens: 10 },
      tokenize: () => [],
      textOf: () => "",
      detectLanguage: async () => "en",
      hear: async (window) => {
        heard.push(window[0] === 0.5 ? "b" : "a");
        if (heard.length === 8) eighth.resolve();
        await new Promise((resolve) => setImmediate(resolve));
        return { tokens: [], starts: undefined };
      },
      close: async () => {},
    };
    const { counted, load } = inTurns(model, () => {});
    const run = (tenant: string, seconds: number, signal: AbortSignal) =>
      asTenant(tenant, () => {
        const sound = new Float32Array(seconds * rate).fill(tenant === "a" ? 0.25 : 0.5);
        return transcribe(counted, heldRecording(rate, [toPcm16(sound)]), ask, signal);
      });
    const gone = new AbortController();
    const six = Array.from({ length: 6 }, () => run("a", 1_200, gone.signal).catch(() => {}));
    await eighth.promise;
    const before = heard.length;
    await run("b", 100, new AbortController().signal);
    const meanwhile = heard.slice(before);
    const own = meanwhile.filter((one) => one === "b").length;
    expect(own).toBeGreaterThanOrEqual(4);
    // One window runs when this tenant comes, and one between each two of its own.
    expect(meanwhile.length - own).toBeLessThanOrEqual(own + 1);
    expect(meanwhile.indexOf("b")).toBeLessThanOrEqual(2);
    expect(load().running + load().waiting).toBe(6);
    gone.abort(new Error("enough"));
    await Promise.all(six);
    expect(load()).toEqual({ running: 0, waiting: 0 });
  });
});

describe("a transcript", () => {
  const transcript = {
    task: "transcribe",
    language: "en",
    seconds: 3723.5,
    text: "Hi there",
    segments: [{ id: 0, start: 3661.5, end: 3723.0625, text: " Hi -->\n there", tokens: [1, 2] }],
    words: undefined,
    outputTokens: 4,
  } as const;
  const bodyOf = (form: Parameters<typeof renderTranscript>[1]) => renderTranscript(transcript, form, true).body;

  test("reads as each form wants it", () => {
    expect(JSON.parse(bodyOf("json"))).toEqual({ text: "Hi there" });
    expect(bodyOf("text")).toBe("Hi there\n");
    expect(bodyOf("srt")).toBe("1\n01:01:01,500 --> 01:02:03,063\nHi -> there\n");
    expect(bodyOf("vtt")).toBe("WEBVTT\n\n01:01:01.500 --> 01:02:03.063\nHi -> there\n");
    expect(JSON.parse(bodyOf("verbose_json"))).toMatchObject({
      task: "transcribe",
      language: "english",
      duration: 3723.5,
      segments: [{ id: 0, seek: 366_150, start: 3661.5, end: 3723.063, tokens: [1, 2] }],
    });
  });

  test("leaves segments out where only words were asked for", () => {
    const words = [{ word: "Hi", start: 0, end: 0.31234 }];
    const { body } = renderTranscript({ ...transcript, words }, "verbose_json", false);
    expect(JSON.parse(body).words).toEqual([{ word: "Hi", start: 0, end: 0.312 }]);
    expect(JSON.parse(body)).not.toHaveProperty("segments");
  });
});

describe("what a model cannot do", () => {
  const english = { languages: ["en"], canTranslate: false, hasWordTimes: false, windowSeconds: 30 };
  const several = { languages: ["en", "de"], canTranslate: true, hasWordTimes: true, windowSeconds: 30 };

  test("is refused with the reason, never done differently in silence", () => {
    expect(() => readTranscription({ language: "de" }, "transcribe", english)).toThrow(/hears en alone/);
    expect(() => readTranscription({ language: "xx" }, "transcribe", several)).toThrow(/2 languages, not xx/);
    expect(() => readTranscription({}, "translate", english)).toThrow(/does not translate/);
    const words = { timestamp_granularities: ["word"], response_format: "verbose_json" };
    expect(() => readTranscription(words, "transcribe", english)).toThrow(/cross-attention/);
    expect(readTranscription(words, "transcribe", several)).toMatchObject({
      ask: { wantsWords: true },
      showsSegments: false,
    });
  });

  test.each([
    [{ response_format: "xml" }, /response_format/],
    [{ temperature: "2" }, /temperature/],
    [{ temperature: "warm" }, /temperature/],
    [{ chunk_length_s: "31" }, /chunk_length_s/],
    [{ timestamp_granularities: ["sentence"] }, /granularities/],
    [{ timestamp_granularities: ["word"], response_format: "srt" }, /verbose_json/],
  ])("refuses %j", (body, message) => {
    expect(() => readTranscription(body, "transcribe", several)).toThrow(message);
  });
});
