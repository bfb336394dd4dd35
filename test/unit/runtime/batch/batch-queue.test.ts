import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BatchQueue } from "../../../../runtime/batch/batch-queue.ts";

const limits = { maxBatchSize: 8, latencyBudgetMs: 8 };
const add = (queue: BatchQueue<string>, item: string, owner: object, sinceMs = 0, weight = 1) => {
  const waiting = { item, tenant: "", request: owner, weight, sinceMs };
  queue.add(waiting);
  return waiting;
};
const batchAt = (queue: BatchQueue<string>, nowMs: number) => {
  const next = queue.next(nowMs);
  return next.kind === "run" ? next.batch.map(({ item }) => item) : next.kind;
};

describe("the queue of batches", () => {
  it("starts a lone item at once when nothing is known of others", () => {
    const queue = new BatchQueue<string>(limits);
    add(queue, "a", {}, 100);
    expect(batchAt(queue, 100)).toEqual(["a"]);
  });

  it("waits for the next item where runs are dear and items come fast, and never beyond the budget", () => {
    const queue = new BatchQueue<string>(limits);
    for (let i = 0; i < 20; i++) queue.ran(1 + (i % 8), 100 + (i % 8));
    for (let i = 0; i < 5; i++) add(queue, `${i}`, {}, i);
    const first = queue.next(4);
    expect(first.kind).toBe("wait");
    expect(first.kind === "wait" && first.untilMs).toBeLessThanOrEqual(limits.latencyBudgetMs);
    expect(batchAt(queue, limits.latencyBudgetMs)).toHaveLength(5);
  });

  it("does not wait where a run costs nothing by itself", () => {
    const queue = new BatchQueue<string>(limits);
    for (let i = 1; i <= 20; i++) queue.ran(i % 8, 10 * (i % 8));
    for (let i = 0; i < 5; i++) add(queue, `${i}`, {}, i);
    expect(batchAt(queue, 4)).toHaveLength(5);
  });

  it("lets a request of one item in before the rest of a request of many", () => {
    const queue = new BatchQueue<string>(limits);
    const many = {};
    for (let i = 0; i < 100; i++) add(queue, `many-${i}`, many, 0, 10);
    expect(batchAt(queue, 0)).toHaveLength(8);
    add(queue, "one", {}, 1, 10);
    expect(batchAt(queue, 1)).toContain("one");
  });

  it("shares a batch between two requests by what their items weigh", () => {
    const queue = new BatchQueue<string>(limits);
    const [heavy, light] = [{}, {}];
    for (let i = 0; i < 20; i++) add(queue, "heavy", heavy, 0, 30);
    for (let i = 0; i < 20; i++) add(queue, "light", light, 0, 10);
    const batch = batchAt(queue, 0) as string[];
    expect(batch.filter((item) => item === "heavy")).toHaveLength(2);
  });

  it("never runs an item that was taken out", () => {
    const queue = new BatchQueue<string>(limits);
    const owner = {};
    const gone = add(queue, "gone", owner);
    add(queue, "stays", owner);
    expect(queue.remove(gone)).toBe(true);
    expect(queue.remove(gone)).toBe(false);
    expect(batchAt(queue, 0)).toEqual(["stays"]);
  });

  it("halves its batches when memory runs out, and grows back after runs that went well", () => {
    const queue = new BatchQueue<string>(limits);
    queue.ranOutOfMemory(8);
    for (let i = 0; i < 20; i++) add(queue, `${i}`, {});
    expect(batchAt(queue, 0)).toHaveLength(4);
    for (let i = 0; i < 64; i++) queue.ran(4, 10);
    expect(batchAt(queue, 0)).toHaveLength(8);
  });

  it("gives out every item once, in batches within the limit, whatever comes and goes", () => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant("add" as const), owner: fc.integer({ min: 0, max: 3 }), weight: fc.nat(50) }),
      fc.record({ kind: fc.constant("next" as const) }),
      fc.record({ kind: fc.constant("remove" as const), which: fc.nat(20) }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 200 }), (actions) => {
        const queue = new BatchQueue<number>(limits);
        const owners = [{}, {}, {}, {}];
        const present = new Map<number, ReturnType<typeof make>>();
        let last = 0;
        let now = 0;
        const make = (owner: number, weight: number) => ({
          item: ++last,
          tenant: owner > 1 ? "b" : "a",
          request: owners[owner] as object,
          weight,
          sinceMs: now,
        });
        const take = (atMs: number) => {
          const next = queue.next(atMs);
          if (next.kind !== "run") return;
          expect(next.batch.length).toBeGreaterThan(0);
          expect(next.batch.length).toBeLessThanOrEqual(limits.maxBatchSize);
          for (const { item } of next.batch) expect(present.delete(item)).toBe(true);
          queue.ran(next.batch.length, next.batch.length + 5);
        };
        for (const one of actions) {
          now += 1;
          if (one.kind === "add") {
            const waiting = make(one.owner, one.weight);
            queue.add(waiting);
            present.set(waiting.item, waiting);
          } else if (one.kind === "remove") {
            const waiting = [...present.values()][one.which];
            if (waiting) expect(queue.remove(waiting)).toBe(present.delete(waiting.item));
          } else take(now);
        }
        for (; queue.size > 0; now += limits.latencyBudgetMs) take(now + limits.latencyBudgetMs);
        expect(present.size).toBe(0);
      }),
    );
  });
});
