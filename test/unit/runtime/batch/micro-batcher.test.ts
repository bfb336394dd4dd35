import { describe, expect, it } from "vitest";
import { type BatchEvent, type Lanes, MicroBatcher } from "../../../../runtime/batch/micro-batcher.ts";

class OutOfMemory extends Error {}

function batcher(run: (items: readonly string[], lane: number) => Promise<readonly string[]>, lanes?: Lanes<string>) {
  const events: BatchEvent[] = [];
  const made = new MicroBatcher<string, string>({
    ...(lanes ? { lanes } : {}),
    maxBatchSize: 8,
    latencyBudgetMs: 5,
    costs: { perRun: 1_000, maxTokens: 10_000 },
    lengthOf: (item) => item.length,
    run,
    isMemoryFailure: (error) => error instanceof OutOfMemory,
    observe: (event) => events.push(event),
  });
  return { batcher: made, events };
}

const upper = async (items: readonly string[]) => items.map((item) => item.toUpperCase());
const never = new AbortController().signal;

describe("a micro-batcher", () => {
  it("runs what arrives together as one batch and gives each request its own results in order", async () => {
    const sizes: number[] = [];
    const { batcher: made } = batcher(async (items) => {
      sizes.push(items.length);
      return upper(items);
    });
    const answers = await Promise.all([made.submit(["a", "longer", "b"], never), made.submit(["c"], never)]);
    expect(answers).toEqual([["A", "LONGER", "B"], ["C"]]);
    expect(sizes).toEqual([4]);
  });

  it("lets a failing item fail alone", async () => {
    const { batcher: made } = batcher(async (items) => {
      if (items.includes("bad")) throw new Error("bad item");
      return upper(items);
    });
    const [good, bad, beside] = await Promise.allSettled(
      [["a", "b", "c"], ["bad"], ["d"]].map((items) => made.submit(items, never)),
    );
    expect(good).toEqual({ status: "fulfilled", value: ["A", "B", "C"] });
    expect(bad).toEqual({ status: "rejected", reason: new Error("bad item") });
    expect(beside).toEqual({ status: "fulfilled", value: ["D"] });
  });

  it("rejects a request with its first failing item once all its items are done", async () => {
    const ran: string[] = [];
    const { batcher: made } = batcher(async (items) => {
      const failing = items.find((item) => item.startsWith("bad"));
      if (failing !== undefined) throw new Error(failing);
      ran.push(...items);
      return upper(items);
    });
    await expect(made.submit(["a", "bad 1", "bad 2", "b"], never)).rejects.toThrow("bad 1");
    expect(ran.sort()).toEqual(["a", "b"]);
  });

  it("completes all items of a batch that did not fit into memory, and makes later batches smaller", async () => {
    const sizes: number[] = [];
    const { batcher: made, events } = batcher(async (items) => {
      sizes.push(items.length);
      if (items.length > 4) throw new OutOfMemory();
      return upper(items);
    });
    const items = [..."abcdefgh"];
    expect(await made.submit(items, never)).toEqual([..."ABCDEFGH"]);
    expect(events).toContainEqual({ kind: "split", items: 8, isMemory: true });
    sizes.length = 0;
    await made.submit(items, never);
    expect(Math.max(...sizes)).toBe(4);
  });

  it("never runs an item whose request was cancelled while it waited", async () => {
    const seen: string[] = [];
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { batcher: made } = batcher(async (items) => {
      seen.push(...items);
      await gate;
      return upper(items);
    });
    const first = made.submit(["first"], never);
    await expect.poll(() => made.running).toBe(1);
    const cancel = new AbortController();
    const second = made.submit(["second"], cancel.signal);
    const third = made.submit(["third"], never);
    expect(made.waiting).toBe(2);
    cancel.abort(new Error("gone"));
    await expect(second).rejects.toThrow("gone");
    expect(made.waiting).toBe(1);
    release();
    await Promise.all([first, third]);
    expect(seen).toEqual(["first", "third"]);
  });

  it("shares what waits between its lanes, and never has two batches on one", async () => {
    const busy = new Set<number>();
    const sizes: number[] = [];
    const gates: (() => void)[] = [];
    const { batcher: made } = batcher(
      async (items, lane) => {
        expect(busy.has(lane)).toBe(false);
        busy.add(lane);
        sizes.push(items.length);
        await new Promise<void>((resolve) => gates.push(resolve));
        busy.delete(lane);
        return upper(items);
      },
      { count: 2, choose: (items, free) => (items.includes("small") ? free.at(-1) : free[0]) ?? 0 },
    );
    const first = Promise.all([..."abcdef"].map((item) => made.submit([item], never)));
    await expect.poll(() => gates.length, { timeout: 20_000 }).toBe(2);
    expect(sizes).toEqual([3, 3]);
    expect(made.running).toBe(6);
    for (const open of gates.splice(0)) open();
    expect((await first).flat()).toEqual([..."ABCDEF"]);
    const lone = made.submit(["small"], never);
    await expect.poll(() => gates.length, { timeout: 20_000 }).toBe(1);
    expect([...busy]).toEqual([1]);
    for (const open of gates.splice(0)) open();
    await lone;
    expect(made.running).toBe(0);
  });

  it("starts what waits before the answers of the last batch go out", async () => {
    const order: string[] = [];
    const gates: (() => void)[] = [];
    const { batcher: made } = batcher(async (items) => {
      order.push(`run ${items.join()}`);
      await new Promise<void>((resolve) => gates.push(resolve));
      return upper(items);
    });
    const first = made.submit(["a"], never).then(() => order.push("answer a"));
    await expect.poll(() => gates.length, { timeout: 20_000 }).toBe(1);
    const second = made.submit(["b"], never).then(() => order.push("answer b"));
    gates[0]?.();
    await expect.poll(() => gates.length, { timeout: 20_000 }).toBe(2);
    gates[1]?.();
    await Promise.all([first, second]);
    expect(order).toEqual(["run a", "run b", "answer a", "answer b"]);
  });
});
