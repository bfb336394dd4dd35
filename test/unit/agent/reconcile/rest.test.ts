import { describe, expect, it } from "vitest";
import { type Facts, freshFacts, sighted, type Use } from "../../../../agent/reconcile/facts.ts";
import { minAwakeMsOf, planRest } from "../../../../agent/reconcile/rest.ts";
import type { InstanceSpec__Output } from "../../../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../../../proto/ids.ts";
import { instanceSpec, sighting } from "../../../fakes/instance-spec.ts";

const nowMs = 1_000_000;
const gpu = "cpu-host-0";
const gib = 1024 ** 3;

interface One {
  readonly id: string;
  /** `unconfirmed`: its engine reports that it sleeps, perhaps until a wake has ended. */
  readonly state: "awake" | "asleep" | "unconfirmed" | "new";
  readonly owner?: string;
  readonly unusedMs?: number;
  readonly awakeMs?: number;
  readonly inFlight?: number;
  /** Time since a request began to wait for it. */
  readonly awaitedMs?: number;
  readonly sleptMs?: number;
  /** Duration of its last wake. */
  readonly wakeMs?: number;
  readonly lacksMs?: number;
  /** Time from its last use before its last sleep to the first caller after it. */
  readonly returnMs?: number;
  /** What its agent does with it now. */
  readonly busy?: "sleep";
  /** It has no specification. */
  readonly isUndesired?: boolean;
  readonly spec?: Partial<InstanceSpec__Output>;
}

function rest(...ones: readonly One[]) {
  const specs = new Map<InstanceId, InstanceSpec__Output>();
  const observed = new Map<InstanceId, ReturnType<typeof sighting>>();
  const facts = new Map<InstanceId, Facts>();
  const uses = new Map<InstanceId, Use>();
  const starting: InstanceSpec__Output[] = [];
  for (const one of ones) {
    const id = one.id as InstanceId;
    const awaitedAtMs = String(one.awaitedMs === undefined ? 0 : nowMs - one.awaitedMs);
    const spec = instanceSpec({
      instanceId: id,
      gpuUuids: [gpu],
      sleepAfterSeconds: 60,
      owner: one.owner ?? "a",
      awaitedAtMs,
      ...one.spec,
    });
    if (!one.isUndesired) specs.set(id, spec);
    const own = {
      ...freshFacts(1, 0),
      busy: one.busy && { kind: one.busy, generation: 1 },
      sleptAtMs: one.sleptMs === undefined ? 0 : nowMs - one.sleptMs,
      ...(one.returnMs === undefined ? {} : { usedAtMs: 1_000, returnedAtMs: 1_000 + one.returnMs }),
    };
    const lacking = one.lacksMs === undefined ? {} : { lacksMemorySinceMs: nowMs - one.lacksMs };
    if (one.state === "new") {
      starting.push(spec);
      facts.set(id, { ...own, ...lacking });
      continue;
    }
    const running = sighting("running", { id, identity: `${id}@1` });
    const seen = one.isUndesired ? { ...running, claimedGpus: [gpu] } : running;
    observed.set(id, seen);
    const { life, ...found } = sighted(own, seen, 0);
    if (!life) throw new Error("a running instance has a life");
    const isSleepConfirmed = one.state === "asleep";
    const isAsleep = isSleepConfirmed || one.state === "unconfirmed";
    const readySinceMs = nowMs - (one.awakeMs ?? 100_000);
    facts.set(id, {
      ...found,
      ...lacking,
      life: { ...life, isAsleep, isSleepConfirmed, isReady: !isAsleep, readySinceMs, wakeMs: one.wakeMs },
    });
    uses.set(id, { inFlight: one.inFlight ?? 0, waiting: 0, unusedMs: one.unusedMs });
  }
  const view = {
    observed,
    facts,
    uses,
    unsettled: new Set<InstanceId>(),
    controlTimeMs: nowMs,
    minAwakeMs: undefined,
    nowMs,
  };
  const found = planRest(view, specs, new Set(), starting);
  return { sleep: [...found.sleep.keys()], wake: [...found.wake], lacking: [...found.lacking] };
}

describe("rest of instances", () => {
  it("puts an instance to sleep once it was unused for its time, and none that works", () => {
    expect(rest({ id: "a", state: "awake", unusedMs: 59_000 }).sleep).toEqual([]);
    expect(rest({ id: "a", state: "awake", unusedMs: 60_000 }).sleep).toEqual(["a"]);
    expect(rest({ id: "a", state: "awake", unusedMs: 60_000, inFlight: 1 }).sleep).toEqual([]);
    expect(rest({ id: "a", state: "awake", unusedMs: 60_000, spec: { sleepAfterSeconds: 0 } }).sleep).toEqual([]);
  });

  it("wakes an instance for a request since its sleep, and not for an earlier one", () => {
    expect(rest({ id: "a", state: "asleep", awaitedMs: 1_000, sleptMs: 2_000 }).wake).toEqual(["a"]);
    expect(rest({ id: "a", state: "asleep", awaitedMs: 3_000, sleptMs: 2_000 }).wake).toEqual([]);
    expect(rest({ id: "a", state: "asleep", awaitedMs: 20_000, sleptMs: 30_000 }).wake).toEqual([]);
  });

  it("puts the least recently used idle instance to sleep for one that is awaited", () => {
    const part = { gpuMemoryBytes: String(9 * gib), gpuShare: 0.45 };
    const found = rest(
      { id: "a", state: "awake", unusedMs: 20_000, spec: part },
      { id: "b", state: "awake", unusedMs: 30_000, spec: part },
      { id: "c", state: "asleep", awaitedMs: 10, spec: part },
    );
    expect(found).toEqual({ sleep: ["b"], wake: [], lacking: ["c"] });
  });

  it("counts memory as held until an engine that reports a sleep has confirmed it", () => {
    const found = rest({ id: "a", state: "unconfirmed" }, { id: "b", state: "asleep", awaitedMs: 10 });
    expect(found).toEqual({ sleep: ["a"], wake: [], lacking: ["b"] });
    const awaited = rest({ id: "a", state: "unconfirmed", awaitedMs: 10 });
    expect(awaited).toEqual({ sleep: ["a"], wake: [], lacking: [] });
  });

  const third = { gpuMemoryBytes: String(10 * gib), gpuShare: 1 / 3 };

  it("has several of one account awake on a GPU while their shares fit beside what those asleep keep of it", () => {
    const awake = { id: "a1", state: "awake", unusedMs: 20_000, spec: third } as const;
    const asleep = { id: "a2", state: "asleep", awaitedMs: 10, spec: third } as const;
    expect(rest(awake, asleep)).toEqual({ sleep: [], wake: ["a2"], lacking: [] });
    const third3 = { id: "a3", state: "awake", unusedMs: 30_000, spec: third } as const;
    expect(rest(awake, third3, asleep)).toEqual({ sleep: [], wake: ["a2"], lacking: [] });
    const others = [4, 5].map((n) => ({ id: `a${n}`, state: "asleep", spec: third }) as const);
    expect(rest(awake, third3, asleep, ...others)).toEqual({ sleep: ["a3"], wake: [], lacking: ["a2"] });
  });

  it("has instances of one account only awake on a GPU, although those of two would fit", () => {
    const wanted = { id: "b1", state: "asleep", owner: "b", awaitedMs: 10, spec: third } as const;
    const idle = { id: "a1", state: "awake", owner: "a", unusedMs: 20_000, spec: third } as const;
    const busy = { id: "a2", state: "awake", owner: "a", inFlight: 1, spec: third } as const;
    expect(rest(idle, wanted)).toEqual({ sleep: ["a1"], wake: [], lacking: ["b1"] });
    // The GPU is given over piece by piece: the idle one does not wait for the busy one.
    expect(rest(idle, busy, wanted)).toEqual({ sleep: ["a1"], wake: [], lacking: ["b1"] });
    const next = { id: "a3", state: "asleep", owner: "a", awaitedMs: 5, spec: third } as const;
    expect(rest(busy, { ...wanted, lacksMs: 500 }, next)).toEqual({ sleep: [], wake: [], lacking: ["b1", "a3"] });
  });

  it("interrupts nothing when what the one put to sleep keeps of the GPU leaves too little", () => {
    const half = { gpuMemoryBytes: String(10 * gib), gpuShare: 0.5 };
    const idle = { id: "a1", state: "awake", unusedMs: 20_000, spec: half } as const;
    const busy = { id: "a2", state: "awake", inFlight: 1, spec: half } as const;
    const wanted = { id: "a3", state: "asleep", awaitedMs: 10, spec: half } as const;
    expect(rest(idle, busy, wanted)).toEqual({ sleep: [], wake: [], lacking: ["a3"] });
    const smaller = { ...wanted, spec: { gpuMemoryBytes: String(9 * gib), gpuShare: 0.45 } } as const;
    expect(rest(idle, busy, smaller)).toEqual({ sleep: ["a1"], wake: [], lacking: ["a3"] });
  });

  it("counts what an instance that is about to sleep will keep of the GPU", () => {
    const quarter = { gpuMemoryBytes: String(10 * gib), gpuShare: 0.25 };
    const leaving = { id: "a1", state: "awake", busy: "sleep", spec: quarter } as const;
    const working = { id: "a2", state: "awake", inFlight: 1, spec: quarter } as const;
    const idle = { id: "a3", state: "awake", unusedMs: 20_000, spec: quarter } as const;
    const half = { gpuMemoryBytes: String(20 * gib), gpuShare: 0.5 };
    const wanted = { id: "a4", state: "asleep", awaitedMs: 10, spec: half } as const;
    expect(rest(leaving, working, idle, wanted)).toEqual({ sleep: ["a3"], wake: [], lacking: ["a4"] });
  });

  it("wakes an instance that is alone, however much those asleep keep of its GPU", () => {
    const small = { gpuMemoryBytes: String(gib), gpuShare: 0.9 };
    const asleep = [1, 2, 3].map((n) => ({ id: `a${n}`, state: "asleep", spec: small }) as const);
    expect(rest({ id: "a", state: "asleep", awaitedMs: 10, spec: small }, ...asleep).wake).toEqual(["a"]);
  });

  it("does not wait for an instance that never sleeps", () => {
    const never = { id: "a", state: "awake", spec: { sleepAfterSeconds: 0 } } as const;
    expect(rest(never, { id: "b", state: "new" }).lacking).toEqual([]);
    expect(rest({ id: "a", state: "awake", inFlight: 1 }, { id: "b", state: "new" }).lacking).toEqual(["b"]);
  });

  it("puts none to sleep where an instance that never sleeps, or has no specification, keeps the GPU", () => {
    const idle = { id: "a1", state: "awake", owner: "a", unusedMs: 20_000, spec: third } as const;
    const wanted = { id: "b1", state: "asleep", owner: "b", awaitedMs: 10, spec: third } as const;
    const never = { id: "a2", state: "awake", owner: "a", spec: { ...third, sleepAfterSeconds: 0 } } as const;
    expect(rest(idle, never, wanted)).toEqual({ sleep: [], wake: [], lacking: ["b1"] });
    const unknown = { id: "x", state: "awake", isUndesired: true } as const;
    expect(rest(idle, unknown, wanted)).toEqual({ sleep: [], wake: [], lacking: ["b1"] });
  });

  it("waits while those awake are busy or have woken only now", () => {
    const busy = rest({ id: "a", state: "awake", inFlight: 1 }, { id: "b", state: "asleep", awaitedMs: 10 });
    expect(busy).toEqual({ sleep: [], wake: [], lacking: ["b"] });
    const young = rest({ id: "a", state: "awake", awakeMs: 4_000 }, { id: "b", state: "asleep", awaitedMs: 10 });
    expect(young).toEqual({ sleep: [], wake: [], lacking: ["b"] });
  });

  it("keeps an instance awake as long as its wake took, at most five seconds, or for the fixed time", () => {
    const other = { id: "b", state: "asleep", awaitedMs: 10 } as const;
    expect(rest({ id: "a", state: "awake", awakeMs: 399, wakeMs: 400 }, other).sleep).toEqual([]);
    expect(rest({ id: "a", state: "awake", awakeMs: 400, wakeMs: 400 }, other).sleep).toEqual(["a"]);
    expect(rest({ id: "a", state: "awake", awakeMs: 4_999, wakeMs: 60_000 }, other).sleep).toEqual([]);
    expect(rest({ id: "a", state: "awake", awakeMs: 5_000, wakeMs: 60_000 }, other).sleep).toEqual(["a"]);
    expect(minAwakeMsOf({ wakeMs: 400 }, { minAwakeMs: 30_000 })).toBe(30_000);
    expect(minAwakeMsOf({ wakeMs: 400 }, { minAwakeMs: 0 })).toBe(0);
  });

  it("lets an instance give way an eighth of its minimum time after its use, unless its last caller returned within that time", () => {
    const other = { id: "b", state: "asleep", awaitedMs: 10 } as const;
    const woken = { id: "a", state: "awake", awakeMs: 300, wakeMs: 800 } as const;
    expect(rest({ ...woken, unusedMs: 99 }, other).sleep).toEqual([]);
    expect(rest({ ...woken, unusedMs: 100 }, other).sleep).toEqual(["a"]);
    expect(rest({ ...woken, unusedMs: 100, returnMs: 800 }, other).sleep).toEqual(["a"]);
    expect(rest({ ...woken, unusedMs: 100, returnMs: 799 }, other).sleep).toEqual([]);
    expect(rest({ ...woken, unusedMs: 100, returnMs: 799, awakeMs: 800 }, other).sleep).toEqual(["a"]);
    // Not used since its wake.
    expect(rest({ ...woken, unusedMs: 301 }, other).sleep).toEqual([]);
  });

  it("keeps an instance awake until the request that woke it has arrived", () => {
    const woken = { id: "a", state: "awake", awakeMs: 8_000, awaitedMs: 8_100, sleptMs: 20_000 } as const;
    const other = { id: "b", state: "asleep", awaitedMs: 10 } as const;
    expect(rest(woken, other).sleep).toEqual([]);
    expect(rest({ ...woken, unusedMs: 6_000 }, other).sleep).toEqual(["a"]);
    expect(rest({ ...woken, awakeMs: 15_000 }, other).sleep).toEqual(["a"]);
  });

  it("serves starts and wakes in the order in which they began to wait", () => {
    const found = rest(
      { id: "a", state: "asleep", awaitedMs: 10, lacksMs: 1_000 },
      { id: "b", state: "new", lacksMs: 2_000 },
    );
    expect(found).toEqual({ sleep: [], wake: [], lacking: ["a"] });
  });

  it("gives a later small one nothing of a GPU for which an earlier one waits", () => {
    const half = { gpuMemoryBytes: "1", gpuShare: 0.5 };
    const found = rest(
      { id: "a", state: "awake", inFlight: 1, spec: half },
      { id: "b", state: "asleep", awaitedMs: 10, lacksMs: 1_000 },
      { id: "c", state: "asleep", awaitedMs: 10, spec: half },
    );
    expect(found).toEqual({ sleep: [], wake: [], lacking: ["b", "c"] });
  });

  it("interrupts nothing when that would not be enough", () => {
    const half = { gpuMemoryBytes: "1", gpuShare: 0.5 };
    const found = rest(
      { id: "a", state: "awake", inFlight: 1, spec: half },
      { id: "b", state: "awake", unusedMs: 20_000, spec: half },
      { id: "c", state: "asleep", awaitedMs: 10 },
    );
    expect(found.sleep).toEqual([]);
  });

  it("never has more awake than fits, whatever arrives when, and starves none", () => {
    let seed = 7;
    const random = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed / 2 ** 31;
    };
    for (let run = 0; run < 40; run++) {
      const shares = Array.from({ length: 6 }, () => [1, 0.5, 0.25][Math.floor(random() * 3)] as number);
      let awake = new Map<number, number>();
      const waiting = new Map<number, number>();
      for (let step = 0; step < 120; step++) {
        if (step < 60 && random() < 0.5) {
          const asked = Math.floor(random() * 6);
          if (!awake.has(asked) && !waiting.has(asked)) waiting.set(asked, step);
        }
        const busy = step < 60 && random() < 0.3 ? [...awake.keys()][0] : undefined;
        const found = rest(
          ...shares.map((gpuShare, index): One => {
            const since = awake.get(index);
            const asked = waiting.get(index);
            return {
              id: String(index),
              owner: String(index % 3),
              state: since === undefined ? "asleep" : "awake",
              ...(since === undefined ? {} : { awakeMs: (step - since) * 3_000, inFlight: index === busy ? 1 : 0 }),
              ...(asked === undefined ? {} : { awaitedMs: 1, lacksMs: (step - asked) * 10 }),
              spec: { gpuMemoryBytes: String(40 * gib * gpuShare), gpuShare },
            };
          }),
        );
        for (const id of found.sleep) expect(Number(id)).not.toBe(busy);
        awake = new Map([...awake].filter(([index]) => !found.sleep.includes(String(index) as InstanceId)));
        for (const id of found.wake) {
          awake.set(Number(id), step);
          waiting.delete(Number(id));
        }
        const used = [...awake.keys()].reduce((sum, index) => sum + (shares[index] as number), 0);
        expect(used).toBeLessThanOrEqual(1);
      }
      expect([...waiting.keys()]).toEqual([]);
    }
  });
});
