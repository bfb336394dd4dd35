import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TextPieces } from "../../../../../../control-plane/http/inference/stream-input/text-pieces.ts";

const withoutSpace = (text: string) => text.replaceAll(/\s+/g, "");

describe("pieces of streamed text", () => {
  it("contain all of the text once, in order", () => {
    const word = fc.stringMatching(/^[a-z]{1,12}[.,!?]?$/);
    fc.assert(
      fc.property(fc.array(word, { maxLength: 200 }), fc.integer({ min: 5, max: 200 }), (words, length) => {
        const text = words.map((one) => `${one} `).join("");
        const pieces = new TextPieces([length]);
        const taken: string[] = [];
        for (const one of words) {
          pieces.add(`${one} `);
          taken.push(...pieces.takeDue());
        }
        taken.push(...pieces.takeAll());
        expect(withoutSpace(taken.join(""))).toBe(withoutSpace(text));
      }),
    );
  });

  it("end with a sentence where there is one, and never within a word", () => {
    const pieces = new TextPieces([10]);
    pieces.add("One two. Three fo");
    expect(pieces.takeDue()).toEqual(["One two."]);
    pieces.add("ur five");
    expect(pieces.takeDue()).toEqual(["Three four"]);
    pieces.add("-andaverylongword");
    expect(pieces.takeDue()).toEqual([]);
  });

  it("wait for text that can be spoken", () => {
    const pieces = new TextPieces([5]);
    pieces.add("... !!! ???  ");
    expect([pieces.takeDue(), pieces.takeWords(1), pieces.takeAll()]).toEqual([[], [], []]);
  });

  it("follow the schedule, whose last entry repeats", () => {
    const pieces = new TextPieces([4, 12]);
    for (const _ of Array(8)) pieces.add("abc ");
    expect(pieces.takeDue().length).toBeGreaterThan(0);
    const more = new TextPieces([4, 12]);
    const taken: string[] = [];
    for (const _ of Array(7)) {
      more.add("abc ");
      taken.push(...more.takeDue());
    }
    expect(taken).toEqual(["abc", "abc abc abc", "abc abc abc"]);
  });

  it("are the same however the text is divided", () => {
    const part = fc.string({
      unit: fc.constantFrom("a", "ü", "𝒜", " ", "\n", ".", "!", '"', ")", "。"),
      maxLength: 12,
    });
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), fc.integer({ min: 5, max: 40 }), (parts, length) => {
        const whole = new TextPieces([length]);
        const divided = new TextPieces([length]);
        whole.add(parts.join(""));
        for (const one of parts) {
          // Also within a character of two code units.
          for (let i = 0; i < one.length; i += 1) divided.add(one.charAt(i));
          divided.takeWords(1_000);
        }
        expect(divided.takeDue()).toEqual(whole.takeDue());
        expect(divided.takeAll()).toEqual(whole.takeAll());
      }),
    );
  });

  it("cost no more for small parts when much text waits that cannot be spoken", () => {
    const pieces = new TextPieces();
    pieces.add("! ".repeat(45_000));
    const startedMs = performance.now();
    for (let i = 0; i < 2_000; i += 1) {
      pieces.add("! ");
      expect([...pieces.takeDue(), ...pieces.takeWords(50)]).toEqual([]);
    }
    // Searching all of the text for each part took 20 s.
    expect(performance.now() - startedMs).toBeLessThan(4_000);
  });
});
