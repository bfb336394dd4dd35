import { describe, expect, it } from "vitest";
import { UsageLog, usageBody, usageRecord } from "../../../../runtime/server/usage-log.ts";

describe("the usage log", () => {
  it("remembers the last 2000 requests and no more", () => {
    const log = new UsageLog();
    for (let i = 0; i <= 2000; i++) log.open(`r${i}`).outputTokens = i;
    expect(log.find("r0")).toBeUndefined();
    expect(log.find("r1")?.outputTokens).toBe(1);
    expect(log.find("r2000")?.outputTokens).toBe(2000);
  });

  it("shows an entry as it stands", () => {
    const entry = Object.assign(new UsageLog().open("a"), { inputTokens: 5, cachedInputTokens: 4, outputTokens: 2 });
    expect(usageRecord(entry)).toEqual({
      input_tokens: 5,
      cached_input_tokens: 4,
      output_tokens: 2,
      reasoning_tokens: 0,
      finished: false,
      aborted: false,
    });
    expect(JSON.stringify({ usage: usageBody(entry) })).toMatch(
      /^\{"usage":\{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7/,
    );
  });
});
