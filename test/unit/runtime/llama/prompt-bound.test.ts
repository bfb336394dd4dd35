import { describe, expect, it } from "vitest";
import { ControlTexts } from "../../../../runtime/llama/chat-template.ts";
import { isTooLong, isTooLongInTurns, promptTokens, widestToken } from "../../../../runtime/llama/prompt-bound.ts";
import { EngineRefusal } from "../../../../runtime/server/text-engine.ts";

const bound = { maxTokens: 10_000, widestToken: 64 };

/** A tokenizer of so many characters each, and what it was given. */
function tokenizer(width: number) {
  const seen: number[] = [];
  const countOf = (text: string) => {
    seen.push(text.length);
    return Math.ceil(text.length / width);
  };
  return { seen, countOf };
}

describe("a text's bound", () => {
  it("refuses what no vocabulary could make fit without tokenising any of it", () => {
    const { seen, countOf } = tokenizer(64);
    expect(isTooLong("a".repeat(640_001), bound, countOf)).toBe(true);
    expect(seen).toEqual([]);
    expect(isTooLong("a".repeat(640_000), bound, countOf)).toBe(false);
  });

  it("looks only at so much of a text as shows that it is too long, in pieces that let others have turns", async () => {
    const { seen, countOf } = tokenizer(4);
    let turns = 0;
    const count = () => {
      turns += 1;
      if (seen.length < 5) setImmediate(count);
    };
    setImmediate(count);
    expect(await isTooLongInTurns("a".repeat(600_000), bound, countOf)).toBe(true);
    expect(Math.max(...seen)).toBeLessThanOrEqual(16_384);
    expect(seen.reduce((sum, length) => sum + length)).toBeLessThan(100_000);
    expect(turns).toBeGreaterThanOrEqual(4);
  });

  it("leaves a text that may fit to the exact count", () => {
    const { countOf } = tokenizer(4);
    expect(isTooLong("a".repeat(79_000), bound, countOf)).toBe(false);
    expect(isTooLong("a".repeat(90_000), bound, countOf)).toBe(true);
  });

  it("is never narrower than what tokenizers of words drop", () => {
    expect(widestToken(["a", "bc"])).toBe(64);
    expect(widestToken(["a".repeat(128)])).toBe(128);
  });
});

describe("a prompt's tokens", () => {
  const part = (text: string) => ({ text, hasControl: true });
  const perCharacter = ({ text }: { readonly text: string }) => Array.from(text, (sign) => sign.charCodeAt(0));

  it("equal those of its parts in their order", async () => {
    expect(await promptTokens([part("ab"), part("c")], bound, perCharacter)).toEqual([97, 98, 99]);
    expect(await promptTokens([], bound, perCharacter)).toEqual([]);
  });

  it("are computed one long text at a time, with turns for others in between", async () => {
    const text = "a".repeat(16_385);
    const order: string[] = [];
    const tokensOf = (given: { readonly text: string }) => {
      if (given.text === text) {
        order.push("long");
        setImmediate(() => order.push("other"));
      }
      return [1];
    };
    await Promise.all(Array.from({ length: 3 }, () => promptTokens([part(text)], bound, tokensOf)));
    expect(order.slice(0, 5)).toEqual(["long", "other", "long", "other", "long"]);
  });

  it("are refused for many parts as for a long one", async () => {
    const many = Array.from({ length: 20_001 }, () => part("a"));
    for (const parts of [many, [part("a".repeat(100_000))], [part("a".repeat(640_000)), part("a")]])
      await expect(promptTokens(parts, bound, perCharacter)).rejects.toThrow(
        new EngineRefusal(
          "context_length",
          "this model's context is 10000 tokens, but the prompt has more than 10000; shorten it",
        ),
      );
  });

  it("are refused for more control texts than the context has tokens", () => {
    const texts = new ControlTexts(["<|end|>"], 3);
    const render = (value: string) => value;
    expect(texts.render("<|end|>".repeat(3), render)).toHaveLength(3);
    expect(() => texts.render("<|end|>".repeat(4), render)).toThrow(/more than 3/);
  });
});
