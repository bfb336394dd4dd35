// Facts of all instances of this host: the only mutable state of the loop.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { Observed } from "./driver.ts";
import { type Facts, forGeneration, freshFacts, sighted } from "./facts.ts";

export interface FactsBook {
  readonly all: ReadonlyMap<InstanceId, Facts>;
  get(id: InstanceId): Facts;
  change(id: InstanceId, change: (facts: Facts) => Facts): void;
  /** Adds desired and observed instances and forgets all others. Returns the forgotten ones. */
  update(
    specs: readonly InstanceSpec__Output[],
    tombstones: readonly string[],
    observed: ReadonlyMap<InstanceId, Observed>,
    nowMs: number,
  ): readonly InstanceId[];
}

export function createFactsBook(): FactsBook {
  const book = new Map<InstanceId, Facts>();
  const get = (id: InstanceId) => book.get(id) ?? freshFacts(0, 0);
  return {
    all: book,
    get,
    change(id, change) {
      // A forgotten instance stays forgotten: ignore a step that ends late.
      const facts = book.get(id);
      if (facts) book.set(id, change(facts));
    },
    update(specs, tombstones, observed, nowMs) {
      for (const spec of specs) {
        const id = spec.instanceId as InstanceId;
        const generation = Number(spec.generation);
        book.set(id, forGeneration(book.get(id) ?? freshFacts(generation, nowMs), generation, nowMs));
      }
      for (const [id, seen] of observed)
        book.set(id, sighted(book.get(id) ?? freshFacts(seen.generation, nowMs), seen, nowMs));
      const isKnown = new Set<string>([...specs.map((spec) => spec.instanceId), ...tombstones, ...observed.keys()]);
      const forgotten = [...book].filter(([id, facts]) => !facts.busy && !isKnown.has(id)).map(([id]) => id);
      for (const id of forgotten) book.delete(id);
      return forgotten;
    },
  };
}
