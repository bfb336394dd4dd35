import { expect, it, vi } from "vitest";
import { createReportSlots } from "../../../../control-plane/billing/report-slots.ts";
import type { AccountId } from "../../../../proto/ids.ts";

const [ada, bob, eve] = ["u:1", "u:2", "u:3"] as AccountId[] as [AccountId, AccountId, AccountId];

/** Reads that end when they are told to; `begun` names them in the order in which they began. */
function reader(slots: ReturnType<typeof createReportSlots>) {
  const begun: string[] = [];
  const ends = new Map<string, { readonly resolve: () => void; readonly reject: (error: Error) => void }>();
  return {
    begun,
    read: (account: AccountId, name: string) =>
      slots.run(account, () => {
        begun.push(name);
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        ends.set(name, { resolve, reject });
        return promise;
      }),
    end: (name: string) => ends.get(name)?.resolve(),
    fail: (name: string) => ends.get(name)?.reject(new Error("away")),
  };
}

it("an account reads two reports at once and all accounts four; who finds no place in time is told when to come again", async () => {
  const { read, begun, end } = reader(createReportSlots({ connections: 16, waitMs: 20 }));
  const running = [read(ada, "a1"), read(ada, "a2")];
  await expect(read(ada, "a3")).rejects.toMatchObject({ code: "too_many_reports" });
  running.push(read(bob, "b1"), read(bob, "b2"));
  await expect(read(eve, "e1")).rejects.toMatchObject({ code: "too_many_reports", retryAfterSeconds: 3 });
  expect(begun).toEqual(["a1", "a2", "b1", "b2"]);
  for (const name of begun) end(name);
  await Promise.all(running);
  // All places are free again.
  const later = [read(ada, "a4"), read(ada, "a5"), read(eve, "e2"), read(eve, "e3")];
  await vi.waitFor(() => expect(begun.slice(4)).toEqual(["a4", "a5", "e2", "e3"]), { timeout: 20_000 });
  for (const name of begun.slice(4)) end(name);
  await Promise.all(later);
});

it("a place that is given back, by a read that failed as well, goes to the first who may have it", async () => {
  const { read, begun, end, fail } = reader(createReportSlots({ connections: 16, waitMs: 60_000 }));
  const [a1, a2, b1, b2] = [read(ada, "a1"), read(ada, "a2"), read(bob, "b1"), read(bob, "b2")];
  const waiting = [read(ada, "a3"), read(eve, "e1")];
  await vi.waitFor(() => expect(begun).toEqual(["a1", "a2", "b1", "b2"]), { timeout: 20_000 });
  fail("b1");
  await expect(b1).rejects.toThrow("away");
  // Ada reads two: it is Eve's.
  await vi.waitFor(() => expect(begun.slice(4)).toEqual(["e1"]), { timeout: 20_000 });
  end("a1");
  await a1;
  await vi.waitFor(() => expect(begun.slice(4)).toEqual(["e1", "a3"]), { timeout: 20_000 });
  for (const name of begun) end(name);
  await Promise.all([a2, b2, ...waiting]);
});

it("few connections leave most of them to other work, and so many may wait", async () => {
  const { read, begun, end } = reader(createReportSlots({ connections: 4, waitMs: 60_000 }));
  const waiting = Array.from({ length: 9 }, (_, n) => read(ada, `a${n}`));
  await expect(read(ada, "one too many")).rejects.toMatchObject({ code: "too_many_reports" });
  for (let n = 0; n < 9; n++) {
    await vi.waitFor(() => expect(begun).toHaveLength(n + 1), { timeout: 20_000 });
    end(`a${n}`);
    await waiting[n];
  }
});
