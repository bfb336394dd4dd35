// Decides when a line of a batch may start: only in capacity that interactive requests leave free. A share of each model's
// slots is reserved for them, and no line starts while any of them is queued at an instance.

import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { AgedLive } from "../fleet/live.ts";
import type { Routes } from "../fleet/routes.ts";

export interface PaceDeps {
  readonly routes: Pick<Routes, "ready">;
  /** Requests queued at its instances, as last reported. */
  readonly waiting: (model: DeploymentId) => number;
  /** Maximum concurrent lines of one account and model at this control plane. */
  readonly maxPerModel: number;
  /** True when this control plane may buffer another response. */
  readonly hasCapacity: () => boolean;
}

/** Share of a model's slots for lines of batches. */
const share = 0.75;

export class Pace {
  readonly #deps: PaceDeps;
  readonly #lines = new Map<string, number>();
  readonly #ofModel = new Map<DeploymentId, number>();

  constructor(deps: PaceDeps) {
    this.#deps = deps;
  }

  mayBegin(account: AccountId, model: DeploymentId): boolean {
    if ((this.#lines.get(`${account} ${model}`) ?? 0) >= this.#deps.maxPerModel) return false;
    if (!this.#deps.hasCapacity()) return false;
    const ready = this.#deps.routes.ready(model);
    // One line wakes a sleeping model; the others wait for its instance.
    if (ready.length === 0) return (this.#ofModel.get(model) ?? 0) === 0;
    let slots = 0;
    let used = 0;
    for (const { maxBatchSize, inFlight } of ready) {
      slots += Math.max(1, Math.floor(maxBatchSize * share));
      used += inFlight;
    }
    // A started line reaches an instance only after its money is held.
    return Math.max(used, this.#ofModel.get(model) ?? 0) < slots && this.#deps.waiting(model) === 0;
  }

  /** Call the returned function once, when the line has ended. */
  begin(account: AccountId, model: DeploymentId): () => void {
    const key = `${account} ${model}`;
    move(this.#lines, key, 1);
    move(this.#ofModel, model, 1);
    return () => {
      move(this.#lines, key, -1);
      move(this.#ofModel, model, -1);
    };
  }
}

function move<Key>(counts: Map<Key, number>, key: Key, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}

/** Interval of the hosts' reports. */
const waitingEveryMs = 2_000;
/** Older reports are ignored. */
const staleMs = 20_000;

/** Counts the requests that wait in queues of a model's instances. Reads the hosts' figures only while batches run. */
export function waitingRequests(live: () => Promise<ReadonlyMap<unknown, AgedLive>>): (model: DeploymentId) => number {
  let known = new Map<DeploymentId, number>();
  let readMs = Number.NEGATIVE_INFINITY;
  const read = async () => {
    const counts = new Map<DeploymentId, number>();
    for (const { live: host, ageMs } of (await live()).values()) {
      if (ageMs > staleMs) continue;
      for (const { deployId, waiting } of host.instances) counts.set(deployId, (counts.get(deployId) ?? 0) + waiting);
    }
    known = counts;
  };
  return (model) => {
    if (performance.now() - readMs >= waitingEveryMs) {
      readMs = performance.now();
      // Unknown queues do not delay batches.
      read().catch(() => {
        known = new Map();
      });
    }
    return known.get(model) ?? 0;
  };
}
