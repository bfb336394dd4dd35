import { describe, expect, it } from "vitest";
import { TurnQueue } from "../../../../runtime/llama/turn-queue.ts";
import { vectorKind } from "../../../../runtime/llama/vector-kind.ts";

describe("what a GGUF model is used for", () => {
  it.each([
    ["", "llama", undefined, undefined],
    ["", "llama", 0, undefined],
    ["", "nomic-bert", undefined, "embeddings"],
    ["", "qwen3", 3, "embeddings"],
    ["", "bert", 4, "reranker"],
    ["reranker", "qwen3", undefined, "reranker"],
    ["embeddings", "llama", undefined, "embeddings"],
  ])("task %j, architecture %s, pooling %s: %s", (task, architecture, pooling, kind) => {
    expect(vectorKind(task, architecture, pooling)).toBe(kind);
  });
});

describe("the queue of turns", () => {
  it("runs one at a time in order, passes over who went away, and goes on after a failure", async () => {
    const queue = new TurnQueue();
    const gone = new AbortController();
    const stay = new AbortController().signal;
    const order: string[] = [];
    const work = (name: string) => async () => {
      order.push(name);
      expect(queue.running).toBe(1);
      await new Promise(setImmediate);
    };
    const first = queue.run(work("first"), stay);
    const failing = queue.run(() => Promise.reject(new Error("no")), stay);
    const leaving = queue.run(work("leaving"), gone.signal);
    const last = queue.run(work("last"), stay);
    gone.abort(new Error("gone"));
    await expect(failing).rejects.toThrow("no");
    await expect(leaving).rejects.toThrow("gone");
    await Promise.all([first, last]);
    expect(order).toEqual(["first", "last"]);
    expect([queue.running, queue.waiting]).toEqual([0, 0]);
  });
});
