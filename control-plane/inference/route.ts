import type { Route } from "../fleet/routes.ts";
import { hashText } from "./affinity.ts";

/** How much fuller than the emptiest an instance may be, in shares of a batch, and still be taken for its cache. */
const maxImbalance = 0.25;

/**
 * The least loaded of the ready instances that were not tried yet; undefined when none is left. With an `affinity` other than
 * 0 the instance that number belongs to, as long as it is not much fuller than the least loaded and has room in its batch.
 * Instances that come and go move only the numbers that belonged to them.
 */
export function pickRoute(ready: readonly Route[], tried: readonly Route[], affinity = 0): Route | undefined {
  let least: Route | undefined;
  let own: Route | undefined;
  let ownWeight = -1;
  for (const route of ready) {
    if (isTried(route, tried)) continue;
    if (!least || route.inFlight * least.maxBatchSize < least.inFlight * route.maxBatchSize) least = route;
    if (affinity === 0) continue;
    const weight = mixed(affinity ^ seedOf(route));
    if (weight <= ownWeight) continue;
    own = route;
    ownWeight = weight;
  }
  if (!own || !least || own === least) return least;
  const isFull = own.inFlight >= own.maxBatchSize;
  const imbalance = own.inFlight / own.maxBatchSize - least.inFlight / least.maxBatchSize;
  return isFull || imbalance > maxImbalance ? least : own;
}

// By id: a refresh of the table may have made a new object for the same instance.
function isTried(route: Route, tried: readonly Route[]): boolean {
  for (const one of tried) if (one.instanceId === route.instanceId) return true;
  return false;
}

const seeds = new WeakMap<Route, number>();

function seedOf(route: Route): number {
  let seed = seeds.get(route);
  if (seed === undefined) {
    seed = hashText(route.instanceId, 0x811c9dc5);
    seeds.set(route, seed);
  }
  return seed;
}

/** Every bit of the answer depends on every bit of the number (the finaliser of MurmurHash3). */
function mixed(number: number): number {
  let hash = number;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
