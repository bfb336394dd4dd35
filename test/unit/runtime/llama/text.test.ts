import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ChoiceText, PieceDecoder } from "../../../../runtime/llama/choice-text.ts";
import { StopScanner } from "../../../../runtime/llama/stop-scanner.ts";

/** One token per byte, as the worst tokenizer has it. */
const bytes = (tokens: readonly number[]) => Buffer.from(tokens).toString("utf8");
const decoder = () => new PieceDecoder((tokens) => bytes(tokens), []);

describe("the decoder of pieces", () => {
  it("holds bytes back until they are a whole character", () => {
    const d = decoder();
    const pieces = [...Buffer.from("aé€😀b")].map((byte) => d.push(byte));
    expect(pieces.join("")).toBe("aé€😀b");
    expect(pieces.some((piece) => piece.includes("\uFFFD"))).toBe(false);
  });

  it("shows broken bytes at the end instead of losing them", () => {
    const d = decoder();
    expect(d.push(0xe2)).toBe("");
    expect(d.flush()).toBe("\uFFFD");
  });
});

describe("the scanner for stop sequences", () => {
  const run = (text: string, stops: string[], size: number) => {
    const scanner = new StopScanner(stops);
    let out = "";
    for (let at = 0; at < text.length; at += size) {
      const { text: piece, stop } = scanner.push(text.slice(at, at + size));
      out += piece;
      if (stop !== undefined) return out;
    }
    return out + scanner.flush();
  };

  it("lets the same text through whatever the piece borders", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 40 }),
        fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 4 }), { maxLength: 3 }),
        fc.integer({ min: 1, max: 5 }),
        (text, stops, size) => {
          const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
          // Found by the end of the earliest match to complete, as a stream sees it.
          const ends = stops.filter((stop) => text.includes(stop)).map((stop) => text.indexOf(stop) + stop.length);
          const out = run(text, stops, size);
          expect(text.startsWith(out)).toBe(true);
          if (found.length === 0) expect(out).toBe(text);
          else expect(out.length).toBeLessThan(Math.min(...ends));
        },
      ),
    );
  });

  it("never lets the beginning of a stop sequence out before it is sure", () => {
    const scanner = new StopScanner(["</end>"]);
    expect(scanner.push("text</en")).toEqual({ text: "text", stop: undefined });
    expect(scanner.push("d>more")).toEqual({ text: "", stop: "</end>" });
  });
});

describe("the text of a choice", () => {
  it("gives each token's log-probability with the text it belongs to, none of the stop sequence", () => {
    const text = new ChoiceText(decoder(), ["XY"]);
    const push = (char: string) => text.push(char.charCodeAt(0), { token: char.charCodeAt(0), logprob: -1, top: [] });
    const tokens = (piece: { logprobs: readonly { token: number }[] }) =>
      piece.logprobs.map((score) => String.fromCharCode(score.token)).join("");
    expect(tokens(push("a").piece)).toBe("a");
    expect(push("X").piece).toEqual({ text: "", logprobs: [] });
    const freed = push("b").piece;
    expect([freed.text, tokens(freed)]).toEqual(["Xb", "Xb"]);
    push("X");
    const { piece, stop } = push("Y");
    expect([piece.text, tokens(piece), stop]).toEqual(["", "", "XY"]);
    expect(text.end()).toEqual({ text: "", logprobs: [] });
  });
});
