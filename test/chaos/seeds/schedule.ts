// Which faults happen when, and to whom: a pure function of the seed, so that a seed that failed can be run again.
import { seeded } from "../../fakes/seed.ts";

const controlPlanes = ["control-plane-1", "control-plane-2"];
const agents = ["agent-1", "agent-2", "agent-3"];
/** Every pair of processes that speak to each other; each has a link of its own (fakes/tcp-link.ts). */
export const links: readonly string[] = [
  ...controlPlanes.flatMap((one) => [`client>${one}`, `${one}>postgres`, `${one}>redis`]),
  "control-plane>receiver",
  "agent-3>docker",
  ...agents.flatMap((agent) => [
    ...controlPlanes.map((one) => `${agent}>${one}`),
    `control-plane>${agent}`,
    `${agent}>engine`,
  ]),
];

interface Kind {
  /** Number in spec/promises.md, 5. */
  readonly of: `F${number}`;
  readonly targets: readonly string[];
  /** How long it lasts, at least and at most, in milliseconds; 0: it is over at once. */
  readonly ms: readonly [number, number];
  /** How often it is chosen beside others, which have 1. */
  readonly weight?: number;
  /** Instances that crash wait ten seconds before they start again, so that it happens once, and early. */
  readonly isOnceAndEarly?: boolean;
  /** Does not happen in a schedule with these: their combination is not promised (docs/reliability.md). */
  readonly never?: readonly FaultName[];
  /** Only where this part of the world is real. */
  readonly needs?: Need;
}

/** `points`: processes kill themselves at named points. `job-tables`: jobs are in PostgreSQL, because there is no Redis. */
export type Need = "redis" | "small-disk" | "docker" | "points" | "job-tables";

/** Points of `STOKER_FAULT`. */
export const controlPlanePoints = ["before_settle", "after_settle", "after_grant", "after_accept"] as const;
export const agentPoints = ["after_record", "after_start"] as const;

/** From this seed on an agent has a Docker engine of its own, processes kill themselves at named points, and every second has no Redis. */
const firstWide = 21;
/** The last of a night. */
export const lastSeed = 24;
export const isWide = (seed: number): boolean => seed >= firstWide && seed !== shortSeed;
export const mayHaveRedis = (seed: number): boolean => !isWide(seed) || seed % 2 === 1;

export type FaultName = keyof typeof kinds;

const brief = [300, 3_000] as const;
export const kinds = {
  "kill-control-plane": { of: "F1", weight: 4, targets: controlPlanes, ms: brief, never: ["lose-state"] },
  "kill-agent": { of: "F2", weight: 4, targets: agents, ms: brief },
  /** Its usage record is durable and the gateway has not read a byte of the answer. */
  "kill-agent-after-record": { of: "F2", targets: agents, ms: [1_000, 3_000] },
  /** Kills itself before usage records are committed, and after it, when their agents do not know; and so on. */
  "kill-at-point": {
    of: "F1",
    weight: 4,
    targets: controlPlanes,
    ms: [1_000, 3_000],
    never: ["lose-state"],
    needs: "points",
  },
  /** The agents that start an instance of a new deployment have not noted it. */
  "kill-agents-after-start": {
    of: "F2",
    targets: ["agents"],
    ms: [4_000, 8_000],
    isOnceAndEarly: true,
    needs: "points",
  },
  /** Every job and schedule is gone. */
  "wipe-job-tables": { of: "F3", weight: 2, targets: ["job tables"], ms: [0, 0], needs: "job-tables" },
  "kill-redis": { of: "F3", weight: 4, targets: ["redis"], ms: brief, needs: "redis" },
  "empty-redis": { of: "F3", targets: ["redis"], ms: [0, 0], needs: "redis" },
  "kill-postgres": { of: "F4", weight: 4, targets: ["postgres"], ms: brief },
  "end-database-connections": { of: "F4", targets: ["postgres"], ms: [0, 0] },
  "lock-budgets": { of: "F4", targets: ["postgres"], ms: [1_000, 4_000] },
  "freeze-postgres": { of: "F4", targets: ["postgres"], ms: brief },
  "cut-link": { of: "F5", targets: links, ms: brief },
  "silence-link": { of: "F5", targets: links, ms: brief },
  "drop-requests": { of: "F5", targets: links, ms: brief },
  "drop-replies": { of: "F5", targets: links, ms: brief },
  "delay-link": { of: "F5", targets: links, ms: brief },
  "trickle-link": { of: "F5", targets: links, ms: brief },
  "reset-link": { of: "F5", targets: links, ms: [0, 0] },
  /** Containers end with their engine, as where live-restore is off. */
  "restart-docker": { of: "F6", targets: ["docker"], ms: brief, needs: "docker" },
  "crash-instance": { of: "F7", targets: ["instance"], ms: [0, 0], isOnceAndEarly: true },
  "hang-instance": { of: "F7", targets: ["instance"], ms: brief },
  "hang-engine": { of: "F7", targets: ["engine"], ms: brief },
  "break-streams": { of: "F7", targets: ["engine"], ms: brief },
  "fail-engine": { of: "F7", targets: ["engine"], ms: brief },
  "fill-disk": { of: "F8", targets: ["agent-1"], ms: brief, needs: "small-disk" },
  "step-clock": { of: "F9", targets: [...controlPlanes, ...agents], ms: [1_000, 8_000] },
  "stop-agent": { of: "F10", targets: agents, ms: [500, 6_000] },
  /** Sends every usage record again that was acknowledged. */
  "resend-records": { of: "F11", targets: agents, ms: [0, 0] },
  "break-downloads": { of: "F12", targets: ["hub"], ms: brief, isOnceAndEarly: true },
  "fail-receiver": { of: "F13", targets: ["receiver"], ms: brief },
  "hang-receiver": { of: "F13", targets: ["receiver"], ms: brief },
  "reset-receiver": { of: "F13", targets: ["receiver"], ms: brief },
  "clients-leave": { of: "F14", targets: ["clients"], ms: brief },
  "clients-read-slowly": { of: "F14", targets: ["clients"], ms: brief },
  "hang-nvidia-smi": { of: "F16", targets: agents, ms: brief },
  "fail-nvidia-smi": { of: "F16", targets: agents, ms: brief },
  "clone-agent": { of: "F17", targets: agents, ms: [1_000, 4_000], never: ["lose-state"] },
  /** Of two control planes, the one that led goes on as if nothing had happened. */
  "stop-control-plane": { of: "F18", targets: controlPlanes, ms: [500, 6_000] },
  "expire-certificate": { of: "F19", targets: agents, ms: brief },
  "lose-state": { of: "F20", targets: agents, ms: [300, 1_500], never: ["kill-control-plane", "clone-agent"] },
} as const satisfies Record<string, KindOf>;
type KindOf = Omit<Kind, "never"> & { readonly never?: readonly string[] };

export interface Event {
  readonly fault: FaultName;
  readonly target: string;
  readonly atMs: number;
  readonly ms: number;
}

/** Runs at every change: kills a control plane, an agent, PostgreSQL and Redis, and cuts, stops and repeats besides. */
export const shortSeed = 2_492;

/** In `spanMs` all events begin. */
const sizeOf = (seed: number) => (seed === shortSeed ? { spanMs: 9_000, events: 8 } : { spanMs: 45_000, events: 30 });

export const kindOf = (fault: FaultName): Kind => kinds[fault] as unknown as Kind;

/** `has`: parts of the world that not every machine has. */
export function schedule(seed: number, has: ReadonlySet<Need>): readonly Event[] {
  const { spanMs, events } = sizeOf(seed);
  const random = seeded(seed, { isFixed: true });
  const isLink = (target: string) =>
    (has.has("redis") || !target.endsWith(">redis")) && (has.has("docker") || !target.endsWith(">docker"));
  const left = (Object.keys(kinds) as FaultName[]).flatMap((name) => {
    const { needs, weight = 1 } = kindOf(name);
    return needs === undefined || has.has(needs) ? Array.from({ length: weight }, () => name) : [];
  });
  const made: Event[] = [];
  for (let tries = 0; made.length < events && tries < events * 50; tries++) {
    const fault = random.pick(left);
    const { targets, ms, isOnceAndEarly, never = [] } = kindOf(fault);
    const target = random.pick(targets.filter(isLink));
    const lasts = random.between(ms[0], ms[1]);
    const atMs = random.between(0, isOnceAndEarly ? spanMs / 4 : spanMs);
    if (made.some((one) => never.includes(one.fault) || kindOf(one.fault).never?.includes(fault))) continue;
    if (isOnceAndEarly && made.some((one) => one.fault === fault)) continue;
    const meets = (one: Event) =>
      one.target === target && atMs <= one.atMs + one.ms + settleMs && one.atMs <= atMs + lasts + settleMs;
    if (made.some(meets)) continue;
    made.push({ fault, target, atMs, ms: lasts });
  }
  return made.toSorted((a, b) => a.atMs - b.atMs);
}

/** A process that was killed starts again in this time, before anything else happens to it. */
const settleMs = 500;

export const lineOf = ({ fault, target, atMs, ms }: Event): string =>
  `${(atMs / 1_000).toFixed(1)} s: ${kindOf(fault).of} ${fault} ${target}${ms > 0 ? ` for ${(ms / 1_000).toFixed(1)} s` : ""}`;
