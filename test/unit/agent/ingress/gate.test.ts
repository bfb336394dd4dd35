import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Gate, type Waiter } from "../../../../agent/ingress/gate.ts";
import { type ServiceTier, tierRank } from "../../../../proto/service-tier.ts";

interface Probe extends Waiter {
  state: "out" | "in" | "busy" | "draining" | "done";
}

function probe(account: string, permits = 1, cost = 10, tier: ServiceTier = "default"): Probe {
  const self: Probe = {
    account,
    tier: tierRank[tier],
    permits,
    cost,
    state: "out",
    admitted: () => {
      self.state = "in";
    },
    refused: (why) => {
      self.state = why;
    },
  };
  return self;
}

const gateOf = (permits: number, options: { clock?: () => number; queueLimit?: number; maxWaitMs?: number } = {}) =>
  new Gate({ permits, clock: () => 0, maxWaitMs: 60_000, ...options });

const step = fc.oneof(
  fc.record({
    kind: fc.constant("enter" as const),
    account: fc.integer({ min: 0, max: 3 }),
    permits: fc.integer({ min: 1, max: 4 }),
    cost: fc.integer({ min: 1, max: 100 }),
  }),
  fc.record({ kind: fc.constant("release" as const), at: fc.nat(), cost: fc.integer({ min: 1, max: 100 }) }),
  fc.record({ kind: fc.constant("leave" as const), at: fc.nat() }),
  fc.record({ kind: fc.constant("resize" as const), permits: fc.integer({ min: 1, max: 12 }) }),
);

describe("gate", () => {
  it("refuses a request that does not wait at once, unless a permit is free", () => {
    const gate = gateOf(1);
    const [first, hasty] = [probe("a"), { ...probe("b"), isHasty: true }];
    gate.enter(first);
    let refused = "";
    gate.enter({ ...hasty, refused: (why) => (refused = why) });
    expect([refused, gate.waiting]).toEqual(["busy", 0]);
    gate.release(first, 1);
    let isIn = false;
    gate.enter({ ...hasty, admitted: () => (isIn = true) });
    expect(isIn).toBe(true);
  });

  it("never gives more permits than it has, loses no waiter and leaves no permit idle that the next in line could take", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.array(step, { maxLength: 200 }), (permits, steps) => {
        const gate = gateOf(permits, { queueLimit: 1000 });
        const all: Probe[] = [];
        let capacity = permits;
        const inside = () => all.filter((p) => p.state === "in");
        const outside = () => all.filter((p) => p.state === "out");
        for (const s of steps) {
          const before = inside().length;
          if (s.kind === "enter") {
            const p = probe(String(s.account), s.permits, s.cost);
            all.push(p);
            gate.enter(p);
          } else if (s.kind === "release" && inside().length > 0) {
            const p = inside()[s.at % inside().length] as Probe;
            p.state = "done";
            gate.release(p, s.cost);
          } else if (s.kind === "leave" && outside().length > 0) {
            const p = outside()[s.at % outside().length] as Probe;
            p.state = "done";
            gate.leave(p);
          } else if (s.kind === "resize") {
            capacity = s.permits;
            gate.resize(capacity);
          }
          if (inside().length > before) {
            // Admissions never push the use above the capacity of this moment; a shrunk gate only drains.
            expect(gate.used).toBeLessThanOrEqual(capacity);
          }
          expect(gate.inFlight).toBe(inside().length);
          expect(gate.waiting).toBe(outside().length);
          // Four permits is the widest: as many free with somebody waiting would be work left undone. From 8 permits on, one
          // more is kept for accounts with nothing running.
          const kept = capacity >= 8 ? 1 : 0;
          if (outside().length > 0) expect(capacity - gate.used).toBeLessThan(Math.min(4, capacity) + kept);
        }
        while (inside().length > 0) {
          const p = inside()[0] as Probe;
          p.state = "done";
          gate.release(p, 1);
        }
        expect(outside()).toEqual([]);
        expect(gate.used).toBe(0);
      }),
    );
  });

  it("does not admit the next in line beyond its account's share once the batch is wider", () => {
    const gate = new Gate({ permits: 3, maxPermitsOfAccount: 6, clock: () => 0, maxWaitMs: 60_000 });
    const [first, other, wide, last] = [probe("a", 2), probe("b"), probe("a", 5), probe("c")];
    for (const p of [first, other, wide, last]) gate.enter(p);
    gate.resize(20);
    expect([wide.state, last.state]).toEqual(["out", "in"]);
    gate.release(first, 10);
    expect(wide.state).toBe("in");
  });

  it("does not let narrow requests overtake a wide one that is next", () => {
    const gate = gateOf(4);
    const running = [probe("a"), probe("a"), probe("a"), probe("a")];
    for (const p of running) gate.enter(p);
    const wide = probe("b", 4);
    gate.enter(wide);
    gate.release(running[0] as Probe, 10);
    const narrow = Array.from({ length: 10 }, () => probe("c", 1, 1));
    for (const p of narrow) gate.enter(p);
    for (const p of running.slice(1)) gate.release(p, 10);
    expect(wide.state).toBe("in");
    expect(narrow.every((p) => p.state === "out")).toBe(true);
  });

  it("runs a request wider than the whole batch alone", () => {
    const gate = gateOf(2);
    const wide = probe("a", 4);
    gate.enter(wide);
    const next = probe("a");
    gate.enter(next);
    expect([wide.state, next.state, gate.used]).toEqual(["in", "out", 2]);
    gate.release(wide, 1);
    expect(next.state).toBe("in");
  });

  it("shares the engine evenly between two accounts, one with ten times as many requests", () => {
    const gate = gateOf(4, { queueLimit: 10_000 });
    const served = { heavy: 0, light: 0 };
    const running: Probe[] = [];
    const ask = (account: "heavy" | "light") => {
      const p = probe(account);
      gate.enter(p);
      running.push(p);
    };
    for (let i = 0; i < 10; i++) ask("heavy");
    ask("light");
    for (let round = 0; round < 2_000; round++) {
      const ended = running.filter((p) => p.state === "in").slice(0, 1);
      for (const p of ended) {
        p.state = "done";
        served[p.account as "heavy" | "light"] += 1;
        gate.release(p, 10);
        // Each keeps its backlog: the heavy one ten deep, the light one always with somebody waiting.
        ask(p.account as "heavy" | "light");
        if (p.account === "light" && gate.waiting < 12) ask("light");
      }
    }
    const share = served.light / (served.light + served.heavy);
    expect(share).toBeGreaterThan(0.4);
    expect(share).toBeLessThan(0.6);
  });

  it("corrects the share by what requests really cost", () => {
    const gate = gateOf(1, { queueLimit: 1000 });
    const cheap = probe("cheap", 1, 100);
    gate.enter(cheap);
    const waiting = { cheap: probe("cheap", 1, 100), dear: probe("dear", 1, 100) };
    gate.enter(waiting.dear);
    gate.enter(waiting.cheap);
    gate.release(cheap, 0);
    // Both accounts stand at zero now, so the earlier arrival goes first.
    expect([waiting.dear.state, waiting.cheap.state]).toEqual(["in", "out"]);
  });

  /** One place, taken in turns by who waits: the accounts in the order they were served. */
  const serveInTurn = (gate: Gate, running: Probe, waiting: readonly Probe[], turns: number): string[] => {
    const order: string[] = [];
    let current = running;
    for (let i = 0; i < turns; i++) {
      current.state = "done";
      gate.release(current, current.cost);
      current = waiting.find((p) => p.state === "in") as Probe;
      order.push(current.account);
    }
    return order;
  };

  it("lets a later account catch up by at most the work in flight", () => {
    const gate = gateOf(1, { queueLimit: 1000 });
    const running = probe("old", 1, 20);
    gate.enter(running);
    const olds = Array.from({ length: 200 }, () => probe("old"));
    for (const p of olds) gate.enter(p);
    // Long before the new one comes the old one is served a hundred times.
    const before = serveInTurn(gate, running, olds, 100);
    expect(new Set(before)).toEqual(new Set(["old"]));
    const news = Array.from({ length: 20 }, () => probe("new"));
    for (const p of news) gate.enter(p);
    const current = olds.find((p) => p.state === "in") as Probe;
    const order = serveInTurn(gate, current, [...olds, ...news], 12);
    expect(order.filter((a) => a === "new").length).toBeLessThanOrEqual(7);
    expect(order.filter((a) => a === "old").length).toBeGreaterThanOrEqual(5);
  });

  it("counts nothing while no request waits: a quiet hour beside a busy account is no credit", () => {
    const gate = gateOf(3, { queueLimit: 1000 });
    const quiet = probe("quiet", 1, 10);
    gate.enter(quiet);
    for (let i = 0; i < 1000; i++) {
      const busy = probe("busy", 1, 100);
      gate.enter(busy);
      gate.release(busy, 100);
    }
    const running = [probe("busy"), probe("busy")];
    for (const p of running) gate.enter(p);
    const all = ["quiet", "busy"].flatMap((account) => Array.from({ length: 20 }, () => probe(account)));
    for (const p of all) gate.enter(p);
    for (const p of [quiet, ...running]) gate.release(p, 10);
    const order: string[] = [];
    for (let i = 0; i < 20; i++) {
      const p = all.find((one) => one.state === "in") as Probe;
      p.state = "done";
      order.push(p.account);
      gate.release(p, 10);
    }
    expect(order.filter((a) => a === "busy").length).toBeGreaterThanOrEqual(8);
  });

  it("gives the whole batch to the only account, however much it was served", () => {
    const gate = gateOf(4, { queueLimit: 1000 });
    const light = probe("light");
    gate.enter(light);
    const heavy = Array.from({ length: 100 }, () => probe("heavy", 1, 1000));
    for (const p of heavy) gate.enter(p);
    gate.release(light, 10);
    for (let done = 0; done < 96; done++) {
      expect(gate.used).toBe(4);
      const p = heavy.find((one) => one.state === "in") as Probe;
      p.state = "done";
      gate.release(p, 1000);
    }
  });

  it("evicts the last waiter of the account with the most from a full queue for an account with fewer", () => {
    const gate = gateOf(1, { queueLimit: 6 });
    gate.enter(probe("heavy"));
    const heavy = Array.from({ length: 6 }, () => probe("heavy"));
    for (const p of heavy) gate.enter(p);
    const light = Array.from({ length: 4 }, () => probe("light"));
    for (const p of light) gate.enter(p);
    const more = probe("heavy");
    gate.enter(more);
    expect(heavy.map((p) => p.state)).toEqual(["out", "out", "out", "busy", "busy", "busy"]);
    expect(light.map((p) => p.state)).toEqual(["out", "out", "out", "busy"]);
    expect([more.state, gate.waiting]).toEqual(["busy", 6]);
  });

  it("refuses requests above its queue limit with the seconds to wait", () => {
    let now = 0;
    const gate = gateOf(2, { clock: () => now, queueLimit: 3 });
    const all = Array.from({ length: 6 }, () => probe("a"));
    for (const p of all) gate.enter(p);
    expect(all.map((p) => p.state)).toEqual(["in", "in", "out", "out", "out", "busy"]);
    now = 4_000;
    gate.release(all[0] as Probe, 1);
    // Two still wait, one place each takes 4 s at two at a time: 1.5 rounds.
    expect(gate.retryAfterSeconds()).toBe(6);
  });

  it("queues 4 times the batch by default, and at least as many as an account may send at once", () => {
    for (const [permits, room] of [
      [1, 200],
      [20, 200],
      [64, 256],
    ] as const) {
      const gate = gateOf(permits);
      const all = Array.from({ length: permits + room + 1 }, () => probe("a"));
      for (const p of all) gate.enter(p);
      expect(all.filter((p) => p.state === "out")).toHaveLength(room);
      expect(all.at(-1)?.state).toBe("busy");
    }
  });

  it("refuses only waiters that have waited too long", () => {
    let now = 0;
    const gate = gateOf(1, { clock: () => now, maxWaitMs: 1_000 });
    const [running, early, late] = [probe("a"), probe("a"), probe("b")];
    gate.enter(running);
    gate.enter(early);
    now = 600;
    gate.enter(late);
    now = 1_100;
    gate.expire();
    expect([early.state, late.state]).toEqual(["busy", "out"]);
  });

  it("refuses every waiter when it drains and lets running requests finish", () => {
    const gate = gateOf(1);
    const [running, waiting] = [probe("a"), probe("b")];
    gate.enter(running);
    gate.enter(waiting);
    gate.drain();
    expect([running.state, waiting.state, gate.waiting, gate.inFlight]).toEqual(["in", "draining", 0, 1]);
  });

  it("admits waiters when the batch grows and none while more run than a smaller batch allows", () => {
    const gate = gateOf(1);
    const all = Array.from({ length: 4 }, () => probe("a"));
    for (const p of all) gate.enter(p);
    gate.resize(3);
    expect(all.map((p) => p.state)).toEqual(["in", "in", "in", "out"]);
    gate.resize(1);
    gate.release(all[0] as Probe, 1);
    gate.release(all[1] as Probe, 1);
    expect(all[3]?.state).toBe("out");
    gate.release(all[2] as Probe, 1);
    expect(all[3]?.state).toBe("in");
  });

  describe("service tiers", () => {
    const waiting = (gate: Gate, tiers: readonly ServiceTier[]) => {
      const all = tiers.map((tier, at) => probe(`account-${at}`, 1, 10, tier));
      for (const p of all) gate.enter(p);
      return all;
    };
    const tierName = ({ tier }: Probe) => Object.entries(tierRank).find(([, rank]) => rank === tier)?.[0];
    /** Ends one request at a time and returns those that follow. */
    const follow = (gate: Gate, first: Probe, all: readonly Probe[], count: number): Probe[] => {
      let current = first;
      return Array.from({ length: count }, () => {
        current.state = "done";
        gate.release(current, current.cost);
        current = all.find((p) => p.state === "in") as Probe;
        return current;
      });
    };

    it("admits priority first, then default, flex and batch, whoever came first", () => {
      const gate = gateOf(1);
      const running = probe("running");
      gate.enter(running);
      const all = waiting(gate, ["batch", "flex", "default", "priority"]);
      expect(follow(gate, running, all, 4).map(tierName)).toEqual(["priority", "default", "flex", "batch"]);
    });

    it("orders the tiers of one account as well", () => {
      const gate = gateOf(1);
      const running = probe("a");
      gate.enter(running);
      const all = (["flex", "default", "flex", "priority"] as const).map((tier) => probe("a", 1, 10, tier));
      for (const p of all) gate.enter(p);
      expect(follow(gate, running, all, 4)).toEqual([all[3], all[1], all[0], all[2]]);
    });

    it("admits one flex request after at most 16 of better tiers", () => {
      const gate = gateOf(1, { queueLimit: 1_000 });
      const running = probe("running");
      gate.enter(running);
      const [flex] = waiting(gate, ["flex"]);
      const flood = Array.from({ length: 100 }, () => probe("flood"));
      for (const p of flood) gate.enter(p);
      const order = follow(gate, running, [...flood, flex as Probe], 40);
      expect(order.indexOf(flex as Probe)).toBe(16);
    });

    it("never lets a batch overtake, and keeps an eighth of the permits from it while others use the model", () => {
      let nowMs = 0;
      const gate = gateOf(16, { clock: () => nowMs, queueLimit: 1_000 });
      const interactive = probe("person");
      gate.enter(interactive);
      const lines = Array.from({ length: 40 }, () => probe("batch", 1, 10, "batch"));
      for (const p of lines) gate.enter(p);
      expect(gate.used).toBe(14);
      const next = probe("person");
      gate.enter(next);
      expect(next.state).toBe("in");
      for (const p of [interactive, next]) gate.release(p, 10);
      nowMs = 60_001;
      gate.release(lines[0] as Probe, 10);
      expect(gate.used).toBe(16);
    });

    it("keeps the waiters of other accounts when one account sends more than its fair part in a better tier", () => {
      const gate = gateOf(1, { queueLimit: 40 });
      gate.enter(probe("other", 1, 10, "priority"));
      const victims = Array.from({ length: 40 }, (_, n) => probe(`v${n % 10}`));
      for (const one of victims) gate.enter(one);
      for (let n = 0; n < 100; n++) gate.enter(probe("greedy", 1, 10, "priority"));
      expect(victims.filter(({ state }) => state === "busy")).toHaveLength(4);
      expect(gate.waiting).toBe(40);
    });

    it("keeps a part of a full queue for each tier", () => {
      const gate = gateOf(1, { queueLimit: 40 });
      gate.enter(probe("other", 1, 10, "priority"));
      const victims = Array.from({ length: 40 }, (_, n) => probe(`v${n}`));
      for (const one of victims) gate.enter(one);
      for (let n = 0; n < 100; n++) gate.enter(probe(`p${n}`, 1, 10, "priority"));
      expect(victims.filter(({ state }) => state !== "busy")).toHaveLength(5);
    });

    it("admits a worse tier to a queue that one account filled with a better one", () => {
      const gate = gateOf(1, { queueLimit: 40 });
      for (let n = 0; n < 41; n++) gate.enter(probe("greedy", 1, 10, "priority"));
      const others = Array.from({ length: 10 }, (_, n) => probe(`o${n}`));
      for (const one of others) gate.enter(one);
      expect(others.filter(({ state }) => state !== "busy")).toHaveLength(5);
    });

    it("evicts the worst tier for a better one when the queue is full, and never a better one", () => {
      const gate = gateOf(1, { queueLimit: 2 });
      gate.enter(probe("running"));
      const [flex, first, second, third] = waiting(gate, ["flex", "default", "default", "default"]) as Probe[];
      expect([flex?.state, first?.state, second?.state, third?.state]).toEqual(["busy", "out", "out", "busy"]);
      const late = probe("late", 1, 10, "flex");
      gate.enter(late);
      expect(late.state).toBe("busy");
    });
  });

  describe("with weights", () => {
    const weighted = (account: string, weight: number, cost = 10): Probe =>
      Object.assign(probe(account, 1, cost), { weight });

    it("serves an account of weight 3 three times the tokens of one of weight 1, whatever their requests cost", () => {
      const gate = gateOf(4, { queueLimit: 1_000 });
      const running: Probe[] = [];
      const served = { light: 0, heavy: 0 };
      const enter = (account: "light" | "heavy") => {
        const one = account === "light" ? weighted(account, 1, 30) : weighted(account, 3, 10);
        running.push(one);
        gate.enter(one);
      };
      for (let n = 0; n < 50; n++) for (const account of ["light", "heavy"] as const) enter(account);
      for (let n = 0; n < 2_000; n++) {
        const at = running.findIndex(({ state }) => state === "in");
        const [one] = running.splice(at, 1) as [Probe];
        const account = one.account as "light" | "heavy";
        // Twice the expected cost: the weight applies to the correction as well.
        gate.release(one, 2 * one.cost);
        served[account] += 2 * one.cost;
        enter(account);
      }
      expect(served.heavy / served.light).toBeGreaterThan(2.9);
      expect(served.heavy / served.light).toBeLessThan(3.1);
    });

    it("divides a full queue by weight", () => {
      const gate = gateOf(1, { queueLimit: 40 });
      gate.enter(probe("running"));
      const light = Array.from({ length: 40 }, () => weighted("light", 1));
      for (const one of light) gate.enter(one);
      const heavy = Array.from({ length: 40 }, () => weighted("heavy", 3));
      for (const one of heavy) gate.enter(one);
      expect(light.filter(({ state }) => state === "out")).toHaveLength(10);
      expect(heavy.filter(({ state }) => state === "out")).toHaveLength(30);
    });
  });

  it("keeps permits for accounts that have nothing running, while they were here within a minute", () => {
    let nowMs = 0;
    const gate = gateOf(16, { clock: () => nowMs, queueLimit: 1_000 });
    const rare = [probe("x"), probe("y"), probe("z")];
    for (const p of rare) {
      gate.enter(p);
      gate.release(p, 10);
    }
    const flood = Array.from({ length: 40 }, () => probe("flood"));
    for (const p of flood) gate.enter(p);
    expect(gate.used).toBe(14);
    for (const p of rare) {
      p.state = "out";
      gate.enter(p);
    }
    expect(rare.map((p) => p.state)).toEqual(["in", "in", "out"]);
    gate.release(flood[0] as Probe, 10);
    expect(rare[2]?.state).toBe("in");
    for (const p of rare) gate.release(p, 10);
    nowMs = 60_001;
    gate.release(flood[1] as Probe, 10);
    expect(gate.used).toBe(16);
  });
});
