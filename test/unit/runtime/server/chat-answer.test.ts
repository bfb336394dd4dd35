import { describe, expect, it } from "vitest";
import { ChatAnswer } from "../../../../runtime/server/chat-answer.ts";

const answer = () => new ChatAnswer({ choices: 1, hasLogprobs: false, nameOf: String }, () => undefined);

describe("a chat answer", () => {
  it("names the stop sequence that ended it, in a stream and as a whole", () => {
    const stopped = answer();
    stopped.piece(0, { text: "a", logprobs: [] });
    expect(stopped.finish(0, "stop", "END").at(-1)).toMatchObject({ finish_reason: "stop", stop_reason: "END" });
    expect(stopped.whole()).toMatchObject([{ finish_reason: "stop", stop_reason: "END" }]);
  });

  it("has no such field after any other end", () => {
    const ended = answer();
    expect(ended.finish(0, "stop").at(-1)).not.toHaveProperty("stop_reason");
    expect(ended.whole()[0]).not.toHaveProperty("stop_reason");
  });
});
