// Earlier rules of the product's router, to compare with.
import type { Route } from "../control-plane/fleet/routes.ts";
import { mixed } from "../control-plane/inference/hash.ts";
import type { Choice, RoutedPrompt } from "../control-plane/inference/route.ts";

/** Chooses instances. `beginning`: a number of the first bytes of the prompt. */
export type Pick = (
  ready: readonly Route[],
  tried: readonly Route[],
  prompt: RoutedPrompt,
  beginning: number,
) => Choice | undefined;

/** Maximum load above the least loaded instance, as a share of the batch, to prefer an instance for its cache. */
const maxImbalance = 0.25;

/** The instance with the fewest sequences for its batch; the first of equal ones. */
export const leastLoaded: Pick = (ready, tried, prompt) => choiceOf(leastOf(ready, tried), prompt);

/** The instance of the prompt's first bytes (rendezvous hashing), unless it is full or much fuller than the least loaded one. */
export const prefixHash: Pick = (ready, tried, prompt, beginning) => {
  const least = leastOf(ready, tried);
  let own: Route | undefined;
  let ownWeight = -1;
  for (const route of ready) {
    if (tried.includes(route)) continue;
    const weight = mixed(beginning ^ mixed(route.slot));
    if (weight <= ownWeight) continue;
    own = route;
    ownWeight = weight;
  }
  if (!own || !least || own === least) return choiceOf(least, prompt);
  const isFull = own.inFlight >= own.maxBatchSize;
  const imbalance = own.inFlight / own.maxBatchSize - least.inFlight / least.maxBatchSize;
  return choiceOf(isFull || imbalance > maxImbalance ? least : own, prompt);
};

function leastOf(ready: readonly Route[], tried: readonly Route[]): Route | undefined {
  let least: Route | undefined;
  for (const route of ready) {
    if (tried.includes(route)) continue;
    if (!least || route.inFlight * least.maxBatchSize < least.inFlight * route.maxBatchSize) least = route;
  }
  return least;
}

const choiceOf = (route: Route | undefined, { tokens, sequences }: RoutedPrompt): Choice | undefined =>
  route && { route, sequences, freshTokens: tokens, cachedTokens: 0, judged: 0, load: undefined, isWaiting: false };
