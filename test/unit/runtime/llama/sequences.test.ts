import { describe, expect, it, vi } from "vitest";
import { chooseSequence } from "../../../../runtime/llama/choose-sequence.ts";
import { Rounds } from "../../../../runtime/llama/rounds.ts";
import { SequencePool } from "../../../../runtime/llama/sequence-pool.ts";

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const none: ReadonlySet<number> = new Set();
const sequence = (name: string, cachedTokens: number[], lastUsed: number, place = 0) => ({
  name,
  cachedTokens,
  lastUsed,
  place,
});

describe("the choice of a sequence", () => {
  it("takes the one whose cache begins most like the prompt", () => {
    const idle = [sequence("empty", [], 0), sequence("half", range(0, 50), 3), sequence("most", range(0, 90), 2)];
    expect(chooseSequence(idle, none, range(0, 100))?.name).toBe("most");
  });

  it("spares a long cache of which only the template's first tokens fit", () => {
    const other = [...range(0, 10), ...range(500, 1500)];
    const prompt = [...range(0, 10), ...range(2000, 2100)];
    const idle = [sequence("other", other, 1), sequence("empty", [], 2)];
    expect(chooseSequence(idle, none, prompt)?.name).toBe("empty");
  });

  it("falls back to the one unused for longest", () => {
    const idle = [sequence("new", [9], 5), sequence("old", [8], 4)];
    expect(chooseSequence(idle, none, [1, 2])?.name).toBe("old");
    expect(chooseSequence([], none, [1])).toBeUndefined();
  });
});

describe("the scope of a cache", () => {
  it("never counts what another scope left, however well it fits", () => {
    const idle = [
      { ...sequence("theirs", range(0, 90), 1), cacheScope: "a" },
      { ...sequence("own", range(0, 50), 2), cacheScope: "b" },
      sequence("empty", [], 3),
    ];
    const chosen = (scope: string, cacheKey?: string) =>
      chooseSequence(idle, none, range(0, 100), cacheKey, scope)?.name;
    expect([chosen("a"), chosen("b"), chosen("c")]).toEqual(["theirs", "own", "empty"]);
  });

  it("separates equal cache keys of two scopes", () => {
    const idle = [
      { ...sequence("theirs", range(0, 90), 1), cacheScope: "a", cacheKey: "k" },
      { ...sequence("own", range(0, 50), 2), cacheScope: "b", cacheKey: "k" },
    ];
    expect(chooseSequence(idle, none, range(0, 100), "k", "b")?.name).toBe("own");
    expect(chooseSequence(idle.slice(0, 1), none, range(0, 100), "k", "b")?.name).toBe("theirs");
  });
});

describe("neighbours", () => {
  it("share one pass of a batch, and a gap starts another: a gap is closed before a row continues, and a new one is last", () => {
    const idle = [6, 4, 2].map((place) => sequence(String(place), [], 0, place));
    const running = new Set([0, 1, 3]);
    const taken: string[] = [];
    for (let i = 0; i < 3; i++) {
      const left = idle.filter(({ name }) => !taken.includes(name));
      taken.push(chooseSequence(left, running, [1])?.name ?? "");
    }
    expect(taken).toEqual(["2", "4", "6"]);
  });

  it("of running sequences are taken before empty and longer unused ones, not before a cache that fits", () => {
    const idle = [sequence("empty", [], 0, 0), sequence("near", [9], 6, 4), sequence("fits", range(0, 50), 5, 7)];
    expect(chooseSequence(idle, new Set([3]), [1, 2])?.name).toBe("near");
    expect(chooseSequence(idle, new Set([3]), range(0, 60))?.name).toBe("fits");
    expect(chooseSequence(idle, none, [1, 2])?.name).toBe("empty");
  });

  it("closes a gap first", () => {
    const idle = [sequence("end", [], 0, 3), sequence("gap", [8], 4, 1)];
    expect(chooseSequence(idle, new Set([0, 2]), [1])?.name).toBe("gap");
  });
});

describe("a cache key", () => {
  const kept = (name: string, cachedTokens: number[], lastUsed: number, cacheKey: string) => ({
    ...sequence(name, cachedTokens, lastUsed),
    cacheKey,
  });

  it("finds its own among equal prefixes", () => {
    const idle = [kept("other", range(0, 50), 1, "b"), kept("own", range(0, 50), 2, "a"), sequence("none", [], 0)];
    expect(chooseSequence(idle, none, range(0, 100), "a")?.name).toBe("own");
  });

  it("spares a kept cache while another sequence is idle, unless the prompt goes on where it ends", () => {
    const idle = [kept("kept", range(0, 50), 1, "b"), sequence("loose", range(900, 950), 2)];
    expect(chooseSequence(idle, none, [...range(0, 40), 7], undefined)?.name).toBe("loose");
    expect(chooseSequence(idle, none, range(0, 60), undefined)?.name).toBe("kept");
    expect(chooseSequence(idle.slice(0, 1), none, [5, 6], undefined)?.name).toBe("kept");
  });
});

describe("the pool of sequences", () => {
  const pool = (size: number) => new SequencePool(range(0, size).map((i) => sequence(String(i), [], 0, i)));
  const never = new AbortController().signal;
  const ask = (count: number, group = "", tenant = "") => ({
    ...{ group, prompt: [1], count, cacheKey: undefined },
    ...{ cacheScope: tenant, tenant, weight: 1 },
  });

  it("lends no sequence twice and serves waiters in their order", async () => {
    const p = pool(2);
    const [a, b] = await p.acquire(ask(2), never);
    const order: string[] = [];
    const note =
      (name: string) =>
      <T>(got: T) => {
        order.push(name);
        return got;
      };
    const first = p.acquire(ask(2), never).then(note("first"));
    const second = p.acquire(ask(1), never).then(note("second"));
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

  it("serves the tenant that was given the least, however many requests another one has waiting", async () => {
    const p = pool(1);
    const [held] = await p.acquire(ask(1, "", "a"), never);
    const order: string[] = [];
    const wait = (tenant: string) =>
      p.acquire(ask(1, "", tenant), new AbortController().signal).then(() => {
        order.push(tenant);
      });
    const all = [...Array.from({ length: 5 }, () => wait("a")), wait("b"), wait("b")];
    for (let i = 0; i < all.length; i++) {
      p.release(held as never);
      await vi.waitFor(() => expect(order).toHaveLength(i + 1));
    }
    await Promise.all(all);
    expect(order).toEqual(["a", "b", "a", "b", "a", "a", "a"]);
  });

  it("removes a waiter whose client disconnected from the queue, and moves up those behind it", async () => {
    const p = pool(2);
    await p.acquire(ask(1), never);
    const gone = new AbortController();
    const leaving = p.acquire(ask(2), gone.signal);
    const behind = p.acquire(ask(1), never);
    gone.abort(new Error("gone"));
    await expect(leaving).rejects.toThrow("gone");
    expect(await behind).toHaveLength(1);
    expect(p.waiting).toBe(0);
  });

  it("runs at most its own number over all adapters, and a busy adapter delays no other", async () => {
    const p = pool(3);
    p.open("a", [sequence("a1", [], 0)]);
    const [held] = await p.acquire(ask(1, "a"), never);
    const second = p.acquire(ask(1, "a"), never);
    // Behind a request that waits for its adapter, not for a place.
    await p.acquire(ask(2), never);
    expect([p.running, p.waiting]).toEqual([3, 1]);
    const third = p.acquire(ask(1), never);
    p.release(held as never);
    expect((await second)[0]).toBe(held);
    expect([p.running, p.waiting]).toEqual([3, 1]);
    p.release(held as never);
    expect((await third)[0]).toMatchObject({ name: expect.stringMatching(/^[0-2]$/) });
  });

  it("refuses an adapter that is about to go and lets those finish who came before", async () => {
    const p = pool(2);
    p.open("a", [sequence("a1", [], 0)]);
    const [held] = await p.acquire(ask(1, "a"), never);
    const before = p.acquire(ask(1, "a"), never);
    let isClosed = false;
    const closed = p.close("a").then(() => {
      isClosed = true;
    });
    await expect(p.acquire(ask(1, "a"), never)).rejects.toThrow(/not loaded/);
    p.release(held as never);
    await before;
    expect(isClosed).toBe(false);
    p.release(held as never);
    await closed;
    await expect(p.acquire(ask(1, "b"), never)).rejects.toThrow(/not loaded/);
  });

  it("refuses more sequences than there are", async () => {
    await expect(pool(2).acquire(ask(3), never)).rejects.toThrow(/n is 3/);
  });
});

describe("rounds", () => {
  it("start a batch only when every step of the last one is done", async () => {
    const sizes: number[] = [];
    const rounds = new Rounds((size) => sizes.push(size));
    const member = async (steps: number, turns: number) => {
      for (let i = 0; i < steps; i++)
        await rounds.run(turns, async () => {
          for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
        });
    };
    await Promise.all([member(5, 1), member(5, 4)]);
    expect(sizes).toEqual([2, 2, 2, 2, 2]);
  });

  it("start their steps in the order of the sequences, whatever the order of arrival", async () => {
    const rounds = new Rounds(() => {});
    const begun: number[] = [];
    const step = (place: number) =>
      rounds.run(place, async () => {
        begun.push(place);
      });
    await Promise.all([step(3), step(0), step(2), step(1)]);
    expect(begun).toEqual([0, 1, 2, 3]);
  });

  it("continue after a failed step", async () => {
    const rounds = new Rounds(() => {});
    await expect(rounds.run(0, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(await rounds.run(0, async () => 7)).toBe(7);
  });
});
