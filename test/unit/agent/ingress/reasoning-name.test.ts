import { describe, expect, it } from "vitest";
import { withReasoningContent } from "../../../../agent/ingress/reasoning-name.ts";

const named = (json: object) => JSON.parse(withReasoningContent(Buffer.from(JSON.stringify(json))).toString());

describe("reasoning under the name of vLLM 0.16 and later", () => {
  it("gets the contract's name in an event and in a whole reply, and keeps everything beside it", () => {
    expect(named({ id: "c", choices: [{ index: 0, delta: { reasoning: "so" }, logprobs: null }] })).toEqual({
      id: "c",
      choices: [{ index: 0, delta: { reasoning_content: "so" }, logprobs: null }],
    });
    const message = { role: "assistant", content: "4", reasoning: null };
    expect(named({ choices: [{ index: 0, message }] }).choices[0].message).toEqual({
      role: "assistant",
      content: "4",
      reasoning_content: null,
    });
  });

  it("does not replace the contract's own field", () => {
    const message = { reasoning_content: "own", reasoning: "other" };
    expect(named({ choices: [{ message }] }).choices[0].message).toEqual({ reasoning_content: "own" });
  });

  it.each([
    ['{"choices":[{"delta":{"content":"\\"reasoning\\": none"}}]}'],
    ['{"reasoning":{"effort":"low"},"output":[]}'],
    ['{"reasoning":'],
  ])("leaves other bytes as they are: %s", (text) => {
    const bytes = Buffer.from(text);
    expect(withReasoningContent(bytes)).toBe(bytes);
  });
});
