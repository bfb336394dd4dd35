// Rate counts exchanged between replicas. Each request is decided in memory, from this replica's counts and the others' last
// reports, a few hundred milliseconds old. While the others are unreachable each replica grants the whole limit, so R
// replicas may admit R times the limit; money is not counted here.
import type { RateCounts, RateMeters } from "./rate-limiter.ts";

/** Messages between replicas; delivery is not guaranteed. */
export interface RateLink {
  publish(message: string): void;
  on(handler: (message: string, from: string) => void): void;
}

export interface SharedRatesDeps {
  readonly meters: RateMeters;
  readonly link: RateLink;
  /** Monotonic ms. */
  readonly clock?: () => number;
  /** Time for which a replica's report is valid. */
  readonly ttlMs?: number;
}

interface Report {
  readonly atMs: number;
  readonly counts: ReadonlyMap<string, RateCounts>;
}

export class SharedRates {
  readonly #meters: RateMeters;
  readonly #link: RateLink;
  readonly #clock: () => number;
  readonly #ttlMs: number;
  readonly #reports = new Map<string, Report>();
  #hasPublished = false;

  constructor({ meters, link, clock = () => performance.now(), ttlMs = 2_000 }: SharedRatesDeps) {
    this.#meters = meters;
    this.#link = link;
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    link.on((message, from) => {
      const counts = read(message);
      if (counts) this.#reports.set(from, { atMs: this.#clock(), counts });
    });
  }

  /** Publishes this replica's counts and applies the others'. Called a few times a second. */
  tick(): void {
    this.#publish();
    const nowMs = this.#clock();
    for (const [from, { atMs }] of this.#reports) if (nowMs - atMs > this.#ttlMs) this.#reports.delete(from);
    this.#meters.setOthers(sum([...this.#reports.values()].map(({ counts }) => counts)));
  }

  #publish(): void {
    const entries: [string, number, number][] = [];
    for (const [id, { requests, tokens }] of this.#meters.counts()) entries.push([id, requests, tokens]);
    // The first empty report is published; later ones are not needed.
    if (entries.length > 0 || this.#hasPublished) this.#link.publish(JSON.stringify(entries));
    this.#hasPublished = entries.length > 0;
  }
}

function sum(all: readonly ReadonlyMap<string, RateCounts>[]): ReadonlyMap<string, RateCounts> {
  if (all.length < 2) return all[0] ?? new Map();
  const sums = new Map<string, RateCounts>();
  for (const counts of all) {
    for (const [id, { requests, tokens }] of counts) {
      const before = sums.get(id);
      sums.set(id, { requests: requests + (before?.requests ?? 0), tokens: tokens + (before?.tokens ?? 0) });
    }
  }
  return sums;
}

/** Undefined for an invalid message: anyone with access to the channel can write to it. */
function read(message: string): ReadonlyMap<string, RateCounts> | undefined {
  try {
    const entries: unknown = JSON.parse(message);
    if (!Array.isArray(entries)) return undefined;
    const counts = new Map<string, RateCounts>();
    for (const [id, requests, tokens] of entries) {
      if (typeof id !== "string" || !isCount(requests) || !isCount(tokens)) return undefined;
      counts.set(id, { requests, tokens });
    }
    return counts;
  } catch {
    return undefined;
  }
}

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;
