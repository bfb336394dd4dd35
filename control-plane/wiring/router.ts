// The router of this control plane, and its hints to the others.
import type { RoutingTable } from "../fleet/routing-table.ts";
import { type HintLink, PrefixHints } from "../inference/prefix-hints.ts";
import { PrefixIndex } from "../inference/prefix-index.ts";
import { Router } from "../inference/route.ts";

/** `link`: connection to the other replicas; undefined: there are none. */
export function createRouter(link: HintLink | undefined, { slotOf }: Pick<RoutingTable, "slotOf">): Router {
  const index = new PrefixIndex();
  const wait = (act: () => void, ms: number) => void setTimeout(act, ms).unref();
  return new Router(Math.random, index, link && new PrefixHints({ index, link, slotOf, wait }));
}
