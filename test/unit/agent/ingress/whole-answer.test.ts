import { describe, expect, it } from "vitest";
import { wholeAnswer } from "../../../../agent/ingress/whole-answer.ts";

const rates = { input: 1_000_000_000n, cachedInput: 0n, output: 2_000_000_000n };
const terms = { inputTokensBound: 40, inputTokensEstimate: 10, maxTokens: 50, permits: 2 };
const answer = (json: string, max = 1_000_000_000n) => {
  const answered = wholeAnswer(Buffer.from(json), { rates, max }, terms);
  if (!answered) throw new Error("the usage was refused");
  const { body, ...rest } = answered;
  return { ...rest, text: body.toString() };
};

describe("complete answer", () => {
  it("adds the cost after the engine's own usage fields and changes nothing else", () => {
    const before =
      '{ "id":1.0, "choices":[{"text":"x"}], "usage": {"prompt_tokens":3, "completion_tokens":2 } , "z":12345678901234567890}';
    const { text, figures, source } = answer(before);
    expect(text).toBe(
      '{ "id":1.0, "choices":[{"text":"x"}], "usage": {"prompt_tokens":3, "completion_tokens":2,"estimated_cost":0.000007} , "z":12345678901234567890}',
    );
    expect([figures.input, figures.output, source]).toEqual([3, 2, "engine"]);
  });

  it("ignores a nested usage and one in a text", () => {
    const { text, figures } = answer(
      '{"a":{"usage":{"prompt_tokens":7}},"usage":{"prompt_tokens":3,"completion_tokens":0},"b":[{"usage":{"prompt_tokens":8}}],"t":"\\"usage\\":{}"}',
    );
    expect(figures.input).toBe(3);
    expect(text.split("estimated_cost")).toHaveLength(2);
    expect(JSON.parse(text).usage.estimated_cost).toBe(0.000003);
  });

  it("estimates usage from the text, within the bound, if the engine sends none, and adds the billed figures", () => {
    const { text, figures, source } = answer('{"choices":[{"message":{"content":"12345678"}}],"usage":null}');
    expect([figures.input, figures.output, source]).toEqual([10, 2, "estimated"]);
    expect(JSON.parse(text).usage).toEqual({
      prompt_tokens: 10,
      completion_tokens: 2,
      total_tokens: 12,
      estimated_cost: 0.000014,
    });
    expect(answer(JSON.stringify({ choices: [{ text: "x".repeat(10_000) }] })).figures.output).toBe(100);
  });
});
