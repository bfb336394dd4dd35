import { describe, expect, it } from "vitest";
import { PromptPace } from "../../../../runtime/llama/rounds.ts";

const settled = (secondsPerToken: number, steps: number) => {
  const pace = new PromptPace(1024);
  for (let i = 1; i <= steps; i++) pace.observe(pace.tokens * secondsPerToken, i);
  return pace.tokens;
};

describe("the length of a prompt step", () => {
  it("settles at a quarter of a second on a slow machine", () => {
    expect(settled(0.01, 20)).toBeGreaterThanOrEqual(24);
    expect(settled(0.01, 20)).toBeLessThanOrEqual(26);
  });

  it("grows to a full batch on a fast one and never falls to nothing", () => {
    expect(settled(0.00001, 20)).toBe(1024);
    expect(settled(10, 20)).toBe(16);
  });

  it("settles although several prompts report each round", () => {
    const pace = new PromptPace(1024);
    const prompts = 8;
    const lengths = Array.from({ length: 20 }, (_, round) => {
      const seconds = prompts * pace.tokens * 0.001;
      for (let prompt = 0; prompt < prompts; prompt++) pace.observe(seconds, round + 1);
      return pace.tokens;
    });
    for (const tokens of lengths.slice(5)) expect(Math.abs(tokens - 250 / prompts)).toBeLessThan(2);
  });
});
