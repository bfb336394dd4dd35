// The router of this control plane, and its hints to the others.
import type { RoutingTable } from "../fleet/routing-table.ts";
import { type HintLink, PrefixHints } from "../inference/prefix-hints.ts";
import { PrefixIndex } from "../inference/prefix-index.ts";
import { PromptScopes } from "../inference/prompt-blocks.ts";
import { Router } from "../inference/route.ts";

/** `link`: connection to the other replicas; undefined: there are none. `secret`: the same in all of them. */
export function createRouter(
  link: HintLink | undefined,
  { slotOf }: Pick<RoutingTable, "slotOf">,
  secret: Buffer,
): Router {
  const index = new PrefixIndex();
  const wait = (act: () => void, ms: number) => void setTimeout(act, ms).unref();
  return new Router(
    Math.random,
    index,
    link && new PrefixHints({ index, link, slotOf, wait }),
    new PromptScopes(secret),
  );
}
