import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { kokoroPitchHz } from "../../../../runtime/tasks/speech/open-speech.ts";
import { cutPhonemes, phonemeTokens } from "../../../../runtime/tasks/speech/phoneme-tokens.ts";
import { openPhonemizer } from "../../../../runtime/tasks/speech/phonemes.ts";
import { speechPieces } from "../../../../runtime/tasks/speech/pieces.ts";
import { readSpeech } from "../../../../runtime/tasks/speech/request.ts";
import { readVoice, voiceText } from "../../../../runtime/tasks/speech/voice.ts";
import { blendFor } from "../../../../runtime/tasks/speech/voice-route.ts";

describe("a text to be spoken", () => {
  test("is cut into sentences, not after an abbreviation", () => {
    expect(speechPieces("Dr. Smith is in. It costs $3.50!  Really?\nYes.")).toEqual([
      "Dr. Smith is in.",
      "It costs $3.50!",
      "Really?",
      "Yes.",
    ]);
  });

  test("has a short first piece, and none that is too long, without losing a word", () => {
    const long = `${"word ".repeat(40)}, and then ${"more ".repeat(120)}end.`;
    const pieces = speechPieces(long);
    expect(pieces[0]?.length).toBeLessThanOrEqual(120);
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(250);
    expect(pieces.join(" ").split(/\s+/)).toEqual(long.trim().split(/\s+/));
  });

  test("keeps every visible character, whatever it is", () => {
    const visible = (text: string) => text.replaceAll(/\s/g, "");
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 600 }), (text) => {
        const pieces = speechPieces(text);
        expect(visible(pieces.join(""))).toBe(visible(text));
        expect(pieces.every((piece) => piece.trim() !== "")).toBe(true);
      }),
    );
  });
});

describe("phonemes", () => {
  test("keep the punctuation that ends clauses, and none that is part of a number", async () => {
    const phonemizer = await openPhonemizer();
    expect(phonemizer.phonemes("Hello, world!", "en-us")).toBe("həlˈoʊ, wˈɜːld!");
    expect(phonemizer.phonemes("It is 3.50.", "en-us")).toMatch(/^ɪ. ɪz θɹˈiː pɔɪnt fˈaɪv .*\.$/);
    expect(phonemizer.phonemes("Hola mundo", "es")).toBe("ˈola mˈundo");
    expect(phonemizer.phonemes("!!! …", "en-us")).toBe("");
    expect(phonemizer.phonemes("Hola\0mundo", "es")).toBe("ˈola mˈundo");
    expect(() => phonemizer.phonemes("a", "xx")).toThrow(RangeError);
  });

  test("fall back to their letter when a model does not know the whole sign", () => {
    const ids = new Map([
      ["a", [1]],
      ["ç", [2]],
      ["̃", [3]],
    ]);
    expect(phonemeTokens("açãä?", ids)).toEqual([[1], [2], [1], [3], [1]]);
  });

  test("are cut between words beyond a model's length", () => {
    const parts = cutPhonemes("abc def, ghi jkl mno", 10);
    expect(parts).toEqual(["abc def,", "ghi jkl", "mno"]);
    expect(cutPhonemes("x".repeat(25), 10).map(({ length }) => length)).toEqual([10, 10, 5]);
  });
});

describe("a voice", () => {
  const presets = ["af_heart", "am_adam", "bm_alpha", "jf_alpha"];
  test("is a preset, the end of its name, or a blend whose parts add up to 1", () => {
    expect(readVoice("af_heart", presets)).toEqual([{ preset: "af_heart", weight: 1 }]);
    expect(readVoice("heart", presets)).toEqual([{ preset: "af_heart", weight: 1 }]);
    expect(readVoice("af_heart:3, am_adam:1", presets)).toEqual([
      { preset: "af_heart", weight: 0.75 },
      { preset: "am_adam", weight: 0.25 },
    ]);
    expect(voiceText(readVoice("af_heart:3,am_adam:1", presets) ?? [])).toBe("af_heart:0.75,am_adam:0.25");
  });

  test.each(["nobody", "alpha", "", "af_heart:0", `af_heart:${"9".repeat(400)}`, "af_heart,", "af_heart;am_adam"])(
    "is unknown for %j",
    (text) => {
      expect(readVoice(text, presets)).toBeUndefined();
    },
  );

  test("lies on its own side of the presets' mean for a low and a high speaker", () => {
    const mean = [...kokoroPitchHz.values()].reduce((sum, hz) => sum + hz, 0) / kokoroPitchHz.size;
    const pitchOf = (hz: number) =>
      (blendFor(hz, kokoroPitchHz) ?? []).reduce((sum, { preset, weight }) => {
        return sum + weight * (kokoroPitchHz.get(preset) ?? 0);
      }, 0);
    expect(pitchOf(95)).toBeLessThan(mean - 20);
    expect(pitchOf(230)).toBeGreaterThan(mean + 20);
    const weights = (blendFor(120, kokoroPitchHz) ?? []).map(({ weight }) => weight);
    expect(weights.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1);
    expect(blendFor(120, new Map())).toBeUndefined();
  });
});

describe("a speech request", () => {
  const model = {
    presets: ["af_heart", "am_adam"],
    defaultVoice: "af_heart",
    languages: ["en", "es"],
    languageOf: () => "en",
    canBlend: true,
  };
  test("has defaults for all but the text, and codes of other services by what they begin with", () => {
    expect(readSpeech({ input: "hi" }, model)).toEqual({
      text: "hi",
      format: "wav",
      manner: { voice: [{ preset: "af_heart", weight: 1 }], language: "en", speed: 1 },
    });
    expect(readSpeech({ input: "hi", response_format: "mp3_44100_128", voice: { id: "adam" } }, model)).toMatchObject({
      format: "mp3",
      manner: { voice: [{ preset: "am_adam" }] },
    });
  });

  test.each([
    [{}, /input is required/],
    [{ input: " " }, /input is required/],
    [{ input: "x".repeat(50_001) }, /50000/],
    [{ input: "hi", response_format: "aac" }, /response_format/],
    [{ input: "hi", stream_format: "sse" }, /stream_format/],
    [{ input: "hi", speed: 5 }, /speed/],
    [{ input: "hi", voice: 3 }, /voice must be/],
    [{ input: "hi", voice: "nobody" }, /no voice nobody; this model has af_heart/],
    [{ input: "hi", language: "xx" }, /speaks en, es, not xx/],
    [{ input: "東京" }, /Chinese characters/],
  ])("reports why it cannot be served: %j", (body, message) => {
    expect(() => readSpeech(body, model)).toThrow(message);
  });

  test("is refused for several voices at once by a model of one", () => {
    const one = { ...model, canBlend: false };
    expect(() => readSpeech({ input: "hi", voice: "af_heart:1,am_adam:1" }, one)).toThrow(/cannot mix/);
  });
});
