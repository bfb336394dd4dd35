import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Entry, FairLines } from "../../../../runtime/batch/fair-lines.ts";
import { FairTurns } from "../../../../runtime/batch/fair-turns.ts";
import { asTenant } from "../../../../runtime/batch/tenant.ts";

const signal = () => new AbortController().signal;
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("turns", () => {
  it("run one at a time, skip cancelled work, and continue after a failure", async () => {
    const turns = new FairTurns();
    const gone = new AbortController();
    const order: string[] = [];
    const work = (name: string) => async () => {
      order.push(name);
      expect(turns.running).toBe(1);
      await nextTurn();
    };
    const first = turns.run(work("first"), signal());
    const failing = expect(turns.run(() => Promise.reject(new Error("no")), signal())).rejects.toThrow("no");
    const leaving = expect(turns.run(work("leaving"), gone.signal)).rejects.toThrow("gone");
    const last = turns.run(work("last"), signal());
    gone.abort(new Error("gone"));
    await Promise.all([first, failing, leaving, last]);
    expect(order).toEqual(["first", "last"]);
    expect([turns.running, turns.waiting]).toEqual([0, 0]);
  });

  it("alternate between tenants, however many requests one of them has", async () => {
    const turns = new FairTurns();
    const order: string[] = [];
    const request = (tenant: string, pieces: number) =>
      asTenant(tenant, async () => {
        const own = signal();
        for (let i = 0; i < pieces; i++)
          await turns.run(async () => {
            order.push(tenant);
            await nextTurn();
          }, own);
      });
    const flood = Array.from({ length: 6 }, () => request("a", 20));
    await nextTurn();
    const before = order.length;
    await request("b", 3);
    // One piece of the other tenant may run when this one comes, and one between each two of its own.
    expect(order.length - before).toBeLessThanOrEqual(3 + 3 + 1);
    await Promise.all(flood);
  });

  it("charge a tenant for the weight of its pieces", async () => {
    const turns = new FairTurns();
    const order: string[] = [];
    const all = ["heavy", "light"].flatMap((tenant) =>
      Array.from({ length: 6 }, () =>
        asTenant(tenant, () =>
          turns.run(
            async () => {
              order.push(tenant);
              await nextTurn();
            },
            signal(),
            tenant === "heavy" ? 30 : 10,
          ),
        ),
      ),
    );
    await Promise.all(all);
    expect(order.slice(0, 7).filter((tenant) => tenant === "light").length).toBeGreaterThanOrEqual(4);
  });
});

describe("lines", () => {
  it("serve every entry once, and no tenant waits for more than one entry of each other tenant", () => {
    const entries = fc.array(fc.record({ tenant: fc.constantFrom("a", "b", "c"), request: fc.nat(2) }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(entries, (list) => {
        const lines = new FairLines<Entry>();
        const requests = [{}, {}, {}];
        for (const { tenant, request } of list) lines.add({ tenant, request: requests[request] as object, weight: 1 });
        const served: string[] = [];
        for (let next = lines.next(); next; next = lines.next()) {
          lines.take(next);
          served.push(next.tenant);
        }
        expect([served.length, lines.size]).toEqual([list.length, 0]);
        for (const tenant of ["a", "b", "c"]) {
          const places = served.flatMap((one, at) => (one === tenant ? [at] : []));
          for (const [i, place] of places.entries()) expect(place - (places[i - 1] ?? -1)).toBeLessThanOrEqual(3);
        }
      }),
    );
  });
});
