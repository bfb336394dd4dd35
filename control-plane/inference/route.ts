import type { Route } from "../fleet/routes.ts";

/** The least loaded of the ready instances that were not tried yet; undefined when none is left. */
export function pickRoute(ready: readonly Route[], tried: readonly Route[]): Route | undefined {
  let best: Route | undefined;
  for (const route of ready) {
    if (isTried(route, tried)) continue;
    if (!best || route.inFlight * best.maxBatchSize < best.inFlight * route.maxBatchSize) best = route;
  }
  return best;
}

// By id: a refresh of the table may have made a new object for the same instance.
function isTried(route: Route, tried: readonly Route[]): boolean {
  for (const one of tried) if (one.instanceId === route.instanceId) return true;
  return false;
}
