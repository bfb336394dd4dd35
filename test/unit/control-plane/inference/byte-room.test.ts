import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteRoom } from "../../../../control-plane/inference/byte-room.ts";

const kib = 1024;

describe("the room for bodies", () => {
  it("is never passed but by one alone, and empty when all is given back", () => {
    const step = fc.record({ account: fc.constantFrom("a", "b", "c"), bytes: fc.integer({ min: 1, max: 900 * kib }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.infiniteStream(fc.boolean()), (steps, ends) => {
        const room = new ByteRoom(600 * kib);
        const held: (typeof steps)[number][] = [];
        for (const one of steps) {
          if (room.take(one.account, one.bytes)) held.push(one);
          const sum = held.reduce((bytes, { bytes: more }) => bytes + more, 0);
          expect(room.heldBytes).toBe(sum);
          if (held.length > 1 && held[0] !== one) expect(sum <= 600 * kib || held[0]?.bytes === sum).toBe(true);
          if (held.length > 0 && ends.next().value) {
            const gone = held.shift() as (typeof steps)[number];
            room.give(gone.account, gone.bytes);
          }
        }
        for (const { account, bytes } of held) room.give(account, bytes);
        expect(room.heldBytes).toBe(0);
        expect(room.take("a", 600 * kib)).toBe(true);
      }),
    );
  });

  it("is not one account's alone: beyond one request it has half of it", () => {
    const room = new ByteRoom(1000 * kib);
    expect([room.take("a", 400 * kib), room.take("a", 200 * kib)]).toEqual([true, false]);
    expect([room.take("b", 200 * kib), room.take("b", 300 * kib)]).toEqual([true, true]);
    expect(room.refusals).toBe(1);
    room.give("a", 400 * kib);
    expect(room.take("a", 450 * kib)).toBe(true);
  });

  it("counts one request's pieces as one sum, which it gives back", () => {
    const room = new ByteRoom(1000 * kib);
    let before = 0;
    for (let n = 0; n < 9; n++, before += 50 * kib) expect(room.take("a", 50 * kib, before)).toBe(true);
    expect(room.take("a", 100 * kib)).toBe(false);
    room.give("a", before);
    expect([room.heldBytes, room.take("a", 500 * kib)]).toEqual([0, true]);
  });

  it("leaves a few MiB to all who have no account", () => {
    const room = new ByteRoom(100 * 1024 * kib);
    expect([room.take("", 3 * 1024 * kib), room.take("", 2 * 1024 * kib)]).toEqual([true, false]);
  });
});
