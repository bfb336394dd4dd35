import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { SlotStore } from "../../../../runtime/llama/slot-store.ts";

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

describe("the store of kept prompts", () => {
  let nowMs = 0;
  let store: SlotStore;
  const write = (bytes: number) => async (path: string) => {
    await writeFile(path, "state");
    return bytes;
  };
  afterEach(() => store.close());

  it("finds a prompt by its key as long as it spares more than the sequence does", async () => {
    store = new SlotStore(1000, () => nowMs);
    await store.save("a", range(0, 100), 60_000, write(500));
    expect(store.find("a", range(0, 200), 10)).toBeDefined();
    expect(store.find("a", range(0, 200), 90)).toBeUndefined();
    expect(store.find("a", range(50, 200), 0)).toBeUndefined();
    expect(store.find("b", range(0, 200), 0)).toBeUndefined();
    nowMs = 60_000;
    expect(store.find("a", range(0, 200), 10)).toBeUndefined();
    nowMs = 0;
  });

  it("drops the oldest when its bytes are used up, and every file at the end", async () => {
    store = new SlotStore(1000, () => nowMs);
    await store.save("a", range(0, 100), 60_000, write(600));
    const path = store.find("a", range(0, 100), 0) as string;
    expect(existsSync(path)).toBe(true);
    await store.save("b", range(0, 100), 60_000, write(600));
    expect([store.bytes, existsSync(path)]).toEqual([600, false]);
    // By what the last one took, this one cannot fit.
    await store.save("c", range(0, 1000), 60_000, () => Promise.reject(new Error("not asked for")));
    await store.close();
    expect(existsSync(dirname(path))).toBe(false);
  });

  it("keeps nothing where it may not, and nothing short", async () => {
    store = new SlotStore(0, () => nowMs);
    const never = () => Promise.reject(new Error("not asked for"));
    await store.save("a", range(0, 100), 60_000, never);
    store = new SlotStore(1000, () => nowMs);
    await store.save("a", range(0, 10), 60_000, never);
    expect(store.bytes).toBe(0);
  });
});
