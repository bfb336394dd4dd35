// Random histories of slices against a database whose replies come late, in any order, or never.
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Hold } from "../../../../control-plane/billing/hold.ts";
import type { BudgetScope } from "../../../../control-plane/billing/scopes.ts";
import { type Slice, Slices, sliceTiming } from "../../../../control-plane/billing/slices.ts";
import type { GiveBack, GrantScope, SyncOutcome } from "../../../../control-plane/billing/store.ts";
import type { AccountId, BudgetId, KeyId, LeaseId, RequestId } from "../../../../proto/ids.ts";
import { nano } from "../../../../proto/money.ts";

const account = "a" as AccountId;
const scopeOf = (budgetId: string): BudgetScope => ({
  budgetId: budgetId as BudgetId,
  kind: "account",
  account,
  key: "k" as KeyId,
  limit: null,
});
const funds = [scopeOf("account/a")];
const both = [...funds, scopeOf("key/k/202611")];

const amount = fc.bigInt({ min: 0n, max: 50n });
const granted = fc.bigInt({ min: 0n, max: 300n });
const kind = fc.oneof(
  fc.record({ do: fc.constant("grant" as const), scopes: fc.constantFrom(funds, both), amount: granted }),
  fc.record({ do: fc.constant("hold" as const), scopes: fc.constantFrom(funds, both), full: amount, floor: amount }),
  fc.record({ do: fc.constant("hold" as const), scopes: fc.constantFrom(funds, both), full: amount, floor: amount }),
  fc.record({
    do: fc.constant("end" as const),
    at: fc.nat(),
    how: fc.constantFrom("settle" as const, "await" as const, "release" as const),
    cost: amount,
  }),
  fc.record({ do: fc.constant("record" as const), at: fc.nat(), cost: amount }),
  fc.record({ do: fc.constant("renew" as const) }),
  fc.record({ do: fc.constant("giveBack" as const), part: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant("retire" as const), at: fc.nat() }),
  fc.record({ do: fc.constant("sweep" as const), at: fc.nat() }),
  fc.record({ do: fc.constant("pass" as const), ms: fc.constantFrom(100, 1_000, 1_000, 6_000, 12_000, 400_000) }),
  fc.record({ do: fc.constant("reply" as const), at: fc.nat(), isLost: fc.boolean() }),
  fc.record({ do: fc.constant("reply" as const), at: fc.nat(), isLost: fc.constant(false) }),
);
const step = fc.tuple(kind, fc.constantFrom(true, false, false)).map(([one, isSlow]) => ({ ...one, isSlow }));
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Held {
  readonly requestId: RequestId;
  readonly hold: Hold;
  reserved: bigint;
  isEnded: boolean;
  isRecorded: boolean;
}

async function live(steps: readonly Step[]): Promise<number> {
  let nowMs = 0;
  const slices = new Slices({ monotonicMs: () => nowMs, unixMs: () => nowMs }, sliceTiming);
  const leases = new Map<LeaseId, { granted: bigint; settled: bigint }>();
  const held: Held[] = [];
  let isSlow = false;
  const replies: ((isLost: boolean) => void)[] = [];
  /** The database has done it when it is asked; its reply may come later or get lost. */
  function replyLater<T>(value: T): Promise<T> {
    if (!isSlow) return Promise.resolve(value);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    replies.push((isLost) => (isLost ? reject(new Error("connection lost")) : resolve(value)));
    return promise;
  }
  const running = new Set<string>();
  /** One grant and one renewal at a time, as a purse and a tick ask. */
  function start(name: string, work: () => Promise<unknown>): void {
    if (running.has(name)) return;
    running.add(name);
    work()
      .catch(() => {})
      .finally(() => running.delete(name));
  }
  const open = () => held.filter((one) => !one.isEnded);

  function grant(wanted: readonly GrantScope[], size: bigint) {
    const gone = wanted.filter((one) => !one.isNew && !leases.has(one.leaseId)).map((one) => one.leaseId);
    if (gone.length > 0) return replyLater({ kind: "gone", leaseIds: gone } as const);
    for (const { leaseId } of wanted) {
      const lease = leases.get(leaseId) ?? { granted: 0n, settled: 0n };
      lease.granted += size;
      if (size > 0n) leases.set(leaseId, lease);
    }
    return replyLater({ kind: "granted", amounts: wanted.map(() => size) } as const);
  }

  function giveBack(items: readonly GiveBack[]) {
    const given = items.flatMap(({ leaseId, amount: wanted, mayClose }) => {
      const lease = leases.get(leaseId);
      if (!lease) return [];
      const left = lease.granted - lease.settled;
      let back = wanted;
      if (back > left) back = left;
      lease.granted -= back;
      const isClosed = mayClose && back === left;
      if (isClosed) leases.delete(leaseId);
      return [{ leaseId, given: back, isClosed }];
    });
    return replyLater(given);
  }

  function happen(one: Step): void {
    if (one.do === "grant") start("grant", () => slices.grant(account, one.scopes, (it) => grant(it, one.amount)));
    else if (one.do === "hold") {
      const requestId = `r${held.length}` as RequestId;
      const [floor, full] = one.floor < one.full ? [one.floor, one.full] : [one.full, one.floor];
      const hold = slices.hold(account, one.scopes, { requestId, floor: nano(floor), full: nano(full) }, nowMs);
      if (hold) {
        const taken = new Map([...slices].map((slice) => [slice.leaseId, slice]));
        const budgets = hold.leaseIds.map((id) => {
          expect(taken.get(id)).toMatchObject({ isRetired: false });
          return taken.get(id)?.budget.budgetId;
        });
        expect(budgets).toEqual(one.scopes.map(({ budgetId }) => budgetId));
      }
      if (hold) held.push({ requestId, hold, reserved: hold.amount, isEnded: false, isRecorded: false });
    } else if (one.do === "end") end(one, held[one.at % (held.length || 1)]);
    else if (one.do === "record") {
      const waiting = held.filter((of) => of.isEnded && !of.isRecorded && of.reserved > 0n);
      record(one.cost, waiting[one.at % (waiting.length || 1)]);
    } else if (one.do === "renew") start("renew", () => slices.renew(sync));
    else if (one.do === "giveBack") {
      const parts = [...slices]
        .filter((slice) => slice.moves === 0 && slice.free >= 0n)
        .map((slice): [Slice, bigint] => [slice, slice.free / BigInt(one.part)]);
      start(`giveBack ${running.size}`, () => slices.giveBack(parts, giveBack));
    } else if (one.do === "retire") {
      const chosen = [...slices][one.at % ([...slices].length || 1)];
      slices.retire((slice) => slice === chosen);
    } else if (one.do === "sweep") {
      // Another replica closes a lease that no agent has a request on.
      const free = [...leases.keys()].filter((id) => !open().some((of) => of.hold.leaseIds.includes(id)));
      leases.delete(free[one.at % (free.length || 1)] as LeaseId);
    } else if (one.do === "pass") {
      nowMs += one.ms;
      slices.forgetOld(nowMs);
    } else replies.splice(one.at % (replies.length || 1), 1)[0]?.(one.isLost);
  }

  function end({ how, cost }: Pick<Step & { readonly do: "end" }, "how" | "cost">, of: Held | undefined): void {
    if (!of) return;
    const { hold } = of;
    const rest = { settle: cost < hold.amount ? cost : hold.amount, await: hold.amount, release: 0n }[how];
    // Later ends change nothing.
    if (!of.isEnded) of.reserved = rest;
    of.isEnded = true;
    if (how === "settle") hold.settle(nano(cost));
    else if (how === "await") hold.awaitRecord();
    else hold.release();
  }

  function record(cost: bigint, of: Held | undefined): void {
    if (!of) return;
    of.isRecorded = true;
    for (const leaseId of of.hold.leaseIds) {
      const lease = leases.get(leaseId);
      if (lease) lease.settled += cost < of.reserved ? cost : of.reserved;
    }
  }

  function sync(ids: readonly LeaseId[], requests: readonly RequestId[]): Promise<SyncOutcome> {
    const recorded = held.filter((of) => of.isRecorded && requests.includes(of.requestId));
    const known = [...leases].filter(([leaseId]) => ids.includes(leaseId));
    return replyLater({
      leases: known.map(([leaseId, lease]) => ({ leaseId, ...lease })),
      recorded: new Map(recorded.map((of) => [of.requestId, [1]])),
    });
  }

  for (const one of steps) {
    isSlow = one.isSlow;
    happen(one);
    await takeIn();
    for (const { leaseId, free } of slices) {
      const lease = leases.get(leaseId);
      if (!lease) continue;
      const reserved = held
        .filter((of) => !of.isRecorded && of.hold.leaseIds.includes(leaseId))
        .reduce((sum, of) => sum + of.reserved, 0n);
      expect(free).toBeLessThanOrEqual(lease.granted - lease.settled - reserved);
    }
    expect(slices.figures.holdAmount).toBeGreaterThanOrEqual(open().reduce((sum, of) => sum + of.hold.amount, 0n));
  }
  // Once every reply, record and renewal has come, nothing stays behind.
  isSlow = false;
  for (const reply of replies) reply(false);
  for (const of of held) {
    end({ how: "release", cost: 0n }, of);
    if (!of.isRecorded) record(of.reserved, of);
  }
  await takeIn();
  nowMs += sliceTiming.renewEveryMs;
  await slices.renew(sync);
  for (const { leaseId, free } of slices) {
    const lease = leases.get(leaseId);
    expect(free).toBe(lease && lease.granted - lease.settled);
  }
  return held.length;
}

/** Lets the replies that were given be taken in. */
async function takeIn(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

it("never has more free than the database granted, less what the ledger took and what requests hold", async () => {
  let holds = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 60, maxLength: 120, size: "max" }), async (steps) => {
      holds += await live(steps);
    }),
    { numRuns: 300 },
  );
  expect(holds).toBeGreaterThan(500);
});

it("does not take a forgotten slice back when the reply of a grant arrives late", async () => {
  let nowMs = 0;
  const slices = new Slices({ monotonicMs: () => nowMs, unixMs: () => nowMs }, sliceTiming);
  const grants = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let asked = 0;
  const grant = async (wanted: readonly GrantScope[]) => {
    await grants[asked++]?.promise;
    return { kind: "granted", amounts: wanted.map(() => 10n) } as const;
  };
  grants[0]?.resolve();
  await slices.grant(account, funds, grant);
  const held = slices.hold(account, funds, { requestId: "r" as RequestId, floor: nano(1n), full: nano(1n) }, nowMs);
  held?.awaitRecord();
  const late = slices.grant(account, funds, grant);
  slices.retire(() => true);
  nowMs += sliceTiming.forgetMs;
  expect(slices.forgetOld(nowMs)).toHaveLength(1);
  grants[1]?.resolve();
  expect((await late).isRecalled).toBe(true);
  expect([...slices]).toEqual([]);
});
