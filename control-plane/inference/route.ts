import type { Route } from "../fleet/routes.ts";
import { hashText, mixed } from "./affinity.ts";

/** Maximum load above the least loaded instance, as a share of the batch, to prefer an instance for its cache. */
const maxImbalance = 0.25;

/**
 * Returns the least loaded ready instance that was not tried yet; undefined if none is left. With an `affinity` other than 0,
 * returns the instance of that number, unless it is much fuller than the least loaded one or its batch is full (rendezvous
 * hashing: a new or removed instance moves only its own numbers).
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

// Compares ids: a refresh of the table may have created a new object for the same instance.
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
