import { describe, expect, it } from "vitest";
import { chooseSequence } from "../../../../runtime/llama/choose-sequence.ts";
import { Rounds } from "../../../../runtime/llama/rounds.ts";
import { SequencePool } from "../../../../runtime/llama/sequence-pool.ts";

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const sequence = (name: string, cachedTokens: number[], lastUsed: number) => ({ name, cachedTokens, lastUsed });

describe("the choice of a sequence", () => {
  it("takes the one whose cache begins most like the prompt", () => {
    const idle = [sequence("empty", [], 0), sequence("half", range(0, 50), 3), sequence("most", range(0, 90), 2)];
    expect(chooseSequence(idle, range(0, 100))?.name).toBe("most");
  });

  it("spares a long cache of which only the template's first tokens fit", () => {
    const other = [...range(0, 10), ...range(500, 1500)];
    const prompt = [...range(0, 10), ...range(2000, 2100)];
    const idle = [sequence("other", other, 1), sequence("empty", [], 2)];
    expect(chooseSequence(idle, prompt)?.name).toBe("empty");
  });

  it("falls back to the one unused for longest", () => {
    const idle = [sequence("new", [9], 5), sequence("old", [8], 4)];
    expect(chooseSequence(idle, [1, 2])?.name).toBe("old");
    expect(chooseSequence([], [1])).toBeUndefined();
  });
});

describe("the pool of sequences", () => {
  const pool = (size: number) => new SequencePool(range(0, size).map((i) => sequence(String(i), [], 0)));
  const never = new AbortController().signal;

  it("lends no sequence twice and serves waiters in their order", async () => {
    const p = pool(2);
    const [a, b] = await p.acquire([1], 2, never);
    const order: string[] = [];
    const note =
      (name: string) =>
      <T>(got: T) => {
        order.push(name);
        return got;
      };
    const first = p.acquire([1], 2, never).then(note("first"));
    const second = p.acquire([1], 1, never).then(note("second"));
    p.release(a as never);
    // One is free, but the first in line needs two: nobody overtakes it.
    await Promise.resolve();
    expect([p.running, p.waiting, order]).toEqual([1, 3, []]);
    p.release(b as never);
    const got = await first;
    expect(new Set(got).size).toBe(2);
    p.release(got[0] as never);
    await second;
    expect(order).toEqual(["first", "second"]);
    expect(p.running).toBe(2);
  });

  it("lets a waiter whose client went away leave the queue, and those behind it move up", async () => {
    const p = pool(2);
    await p.acquire([1], 1, never);
    const gone = new AbortController();
    const leaving = p.acquire([1], 2, gone.signal);
    const behind = p.acquire([1], 1, never);
    gone.abort(new Error("gone"));
    await expect(leaving).rejects.toThrow("gone");
    expect(await behind).toHaveLength(1);
    expect(p.waiting).toBe(0);
  });

  it("refuses more sequences than there are", async () => {
    await expect(pool(2).acquire([1], 3, never)).rejects.toThrow(/n is 3/);
  });
});

describe("rounds", () => {
  it("begin a batch only when every step of the last one is done", async () => {
    const sizes: number[] = [];
    const rounds = new Rounds((size) => sizes.push(size));
    const member = async (steps: number, turns: number) => {
      for (let i = 0; i < steps; i++)
        await rounds.run(async () => {
          for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
        });
    };
    await Promise.all([member(5, 1), member(5, 4), member(5, 2)]);
    expect(sizes).toEqual([3, 3, 3, 3, 3]);
  });

  it("go on after a step that failed", async () => {
    const rounds = new Rounds(() => {});
    await expect(rounds.run(() => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(await rounds.run(async () => 7)).toBe(7);
  });
});
