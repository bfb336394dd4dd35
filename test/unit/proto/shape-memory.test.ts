import { beforeEach, describe, expect, it } from "vitest";
import { shapeOf } from "../../../proto/request-shape.ts";
import { ShapeMemory } from "../../../proto/shape-memory.ts";

const [alice, bob] = ["alice", "bob"] as const;

describe("the memory of shapes", () => {
  let nowMs = 0;
  let memory: ShapeMemory<number>;
  beforeEach(() => {
    nowMs = 1_000;
    memory = new ShapeMemory({ clock: () => nowMs, rememberedMs: 100, maxShapes: 3 });
  });

  it("becomes empty again by time, each shape counted from its last change", () => {
    memory.set(alice, "a", 1);
    memory.set(alice, "b", 1);
    nowMs += 60;
    memory.set(alice, "a", 2);
    nowMs += 60;
    expect([memory.get(alice, "a"), memory.get(alice, "b"), memory.isEmpty]).toEqual([2, undefined, false]);
    nowMs += 60;
    expect([memory.isEmpty, memory.get(alice, "a")]).toEqual([true, undefined]);
  });

  it("forgets the shape that was changed longest ago", () => {
    for (const digest of ["a", "b", "c", "a", "d"]) memory.set(alice, digest, 1);
    expect(["a", "b", "c", "d"].map((digest) => memory.get(alice, digest))).toEqual([1, undefined, 1, 1]);
  });

  it("keeps the shapes of each account apart", () => {
    memory.set(alice, "a", 1);
    expect(memory.get(bob, "a")).toBeUndefined();
    expect(memory.mayKnow(bob, Buffer.from("{}"))).toBe(false);
    memory.delete(bob, "a");
    expect(memory.get(alice, "a")).toBe(1);
  });

  it("takes the space for a new shape from the account with the most shapes", () => {
    memory.set(bob, "b", 1);
    for (let i = 0; i < 10; i++) memory.set(alice, `a${i}`, 1);
    expect(memory.get(bob, "b")).toBe(1);
    expect(["a7", "a8", "a9"].map((digest) => memory.get(alice, digest))).toEqual([undefined, 1, 1]);
    memory.set(bob, "c", 1);
    expect([memory.get(bob, "b"), memory.get(alice, "a8"), memory.get(alice, "a9")]).toEqual([1, undefined, 1]);
  });

  it("forgets expired shapes before it takes space from an account", () => {
    memory.set(bob, "b", 1);
    nowMs += 60;
    for (const digest of ["a1", "a2"]) memory.set(alice, digest, 1);
    nowMs += 60;
    memory.set(alice, "a3", 1);
    expect(["a1", "a2", "a3"].map((digest) => memory.get(alice, digest))).toEqual([1, 1, 1]);
  });

  it("rules out a large body by its length alone", () => {
    const large = (bytes: number, fill: string) => Buffer.alloc(2 * 1024 * 1024 + bytes, fill);
    const small = Buffer.from("{}");
    expect(memory.mayKnow(alice, small)).toBe(false);
    memory.set(alice, shapeOf(small).whole, 1);
    expect([small, Buffer.from("{ }"), large(7, "a")].map((body) => memory.mayKnow(alice, body))).toEqual([
      true,
      true,
      false,
    ]);
    memory.set(alice, shapeOf(large(7, "a")).whole, 1);
    expect([large(7, "b"), large(8, "a"), large(0, "a")].map((body) => memory.mayKnow(alice, body))).toEqual([
      true,
      false,
      true,
    ]);
  });
});
