// The gate of an engine: accounts of different weights and tiers come, wait, leave, run and end, while its capacity changes.
import { Gate, type Waiter } from "../../../agent/ingress/gate.ts";
import { serviceTiers } from "../../../proto/service-tier.ts";
import type { Seeded } from "../../fakes/seed.ts";
import type { Simulated, Simulation } from "./simulate.ts";

const maxWaitMs = 30_000;

interface Visitor extends Waiter {
  readonly number: number;
  readonly cameMs: number;
  state: "waiting" | "running" | "gone";
  /** Calls of `admitted` and `refused`. */
  answers: number;
}

/** The gate is told of more permits than there are. */
const tooWide = "a gate that admits beyond its batch";

function create(random: Seeded, defect?: string): Simulated {
  let nowMs = 0;
  let capacity = random.between(1, 24);
  let wrong: string | undefined;
  const maxEach = random.pick([undefined, 4]);
  const maxOfAccount = random.pick([undefined, 6]);
  const queueLimit = random.pick([undefined, 10]);
  const gate = new Gate({
    permits: defect === tooWide ? capacity + 3 : capacity,
    clock: () => nowMs,
    maxWaitMs,
    ...(maxEach === undefined ? {} : { maxPermitsEach: maxEach }),
    ...(maxOfAccount === undefined ? {} : { maxPermitsOfAccount: maxOfAccount }),
    ...(queueLimit === undefined ? {} : { queueLimit }),
  });
  const waiting = new Set<Visitor>();
  const running = new Set<Visitor>();
  let came = 0;
  const needOf = ({ permits }: Waiter) => Math.min(permits, maxEach ?? Number.POSITIVE_INFINITY, capacity);

  function visitor(): Visitor {
    const self: Visitor = {
      number: ++came,
      account: `account-${random.between(0, 5)}`,
      cost: random.between(1, 500),
      weight: random.pick([1, 1, 3]),
      tier: random.between(0, serviceTiers.length - 1),
      permits: random.pick([1, 1, 1, 2, 5, 30]),
      isHasty: random.between(0, 9) === 0,
      cameMs: nowMs,
      state: "waiting",
      answers: 0,
      admitted() {
        self.answers += 1;
        waiting.delete(self);
        running.add(self);
        self.state = "running";
        const used = [...running].reduce((sum, { turn }) => sum + (turn?.permits ?? 0), 0);
        if (used > capacity && running.size > 1) wrong = `${used} permits of ${capacity} are used after an admission`;
        const own = [...running].filter(({ account }) => account === self.account);
        const ownUsed = own.reduce((sum, { turn }) => sum + (turn?.permits ?? 0), 0);
        if (maxOfAccount !== undefined && own.length > 1 && ownUsed > maxOfAccount)
          wrong = `${self.account} uses ${ownUsed} permits, at most ${maxOfAccount}`;
      },
      refused() {
        self.answers += 1;
        waiting.delete(self);
        self.state = "gone";
      },
    };
    return self;
  }

  const one = (of: ReadonlySet<Visitor>): Visitor | undefined => [...of][random.between(0, Math.max(0, of.size - 1))];

  function step(): string {
    const dice = random.between(0, 19);
    if (dice < 8) {
      const self = visitor();
      waiting.add(self);
      gate.enter(self);
      if (self.isHasty && self.state === "waiting") wrong = `${self.number} is hasty and waits`;
      return `${self.number} of ${self.account} comes with ${self.permits} permits, tier ${self.tier}: ${self.state}`;
    }
    if (dice < 15) {
      const self = one(running);
      if (!self) return "nobody runs";
      running.delete(self);
      self.state = "gone";
      const cost = random.between(0, 800);
      gate.release(self, cost);
      if (random.between(0, 9) === 0) gate.release(self, cost);
      return `${self.number} ends at a cost of ${cost}`;
    }
    if (dice < 17) {
      const self = one(waiting);
      if (!self) return "nobody waits";
      waiting.delete(self);
      self.state = "gone";
      gate.leave(self);
      return `${self.number} leaves`;
    }
    if (dice === 17) {
      capacity = random.between(1, 24);
      gate.resize(capacity);
      return `${capacity} permits`;
    }
    nowMs += random.between(0, 8_000);
    gate.expire();
    for (const self of waiting)
      if (nowMs - self.cameMs > maxWaitMs) wrong = `${self.number} waits since ${self.cameMs}`;
    return `it is ${nowMs} ms`;
  }

  function check(): string | undefined {
    if (wrong !== undefined) return wrong;
    if (gate.waiting !== waiting.size) return `the gate counts ${gate.waiting} waiters of ${waiting.size}`;
    if (gate.inFlight !== running.size) return `the gate counts ${gate.inFlight} running of ${running.size}`;
    let used = 0;
    for (const { turn } of running) used += turn?.permits ?? 0;
    if (gate.used !== used) return `the gate counts ${gate.used} permits of ${used}`;
    if (running.size === 0 && waiting.size > 0) return `${waiting.size} wait and nobody runs`;
    for (const { number, answers, state } of [...waiting, ...running])
      if (answers !== (state === "waiting" ? 0 : 1)) return `${number} is ${state} after ${answers} answers`;
    // What is kept free is an eighth at most: whoever has nothing running waits only for that, or for those before it.
    const narrow = [...waiting].every((self) => needOf(self) === 1);
    const newcomers = [...waiting].filter(({ account }) => ![...running].some((other) => other.account === account));
    if (
      narrow &&
      newcomers.some(({ tier }) => tier !== serviceTiers.length - 1) &&
      used < capacity - Math.floor(capacity / 8)
    )
      return `${newcomers[0]?.number} waits although ${capacity - used} of ${capacity} permits are free`;
    return undefined;
  }

  return { step, check };
}

export const gate: Simulation = { name: "gate", defects: [tooWide], create };
