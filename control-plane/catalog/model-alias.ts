// Aliases: names for one or several models, with weights and fallbacks. An account defines its own; an operator defines
// some for every account. Targets are models, never aliases, so resolution takes one step.
import type { AccountId } from "../../proto/ids.ts";

export interface AliasTarget {
  readonly model: string;
  /** Share of the requests, relative to the other targets. 0: only if the others cannot serve. */
  readonly weight: number;
}

export interface ModelAlias {
  readonly name: string;
  /** Null: defined by an operator, for every account. */
  readonly account: AccountId | null;
  readonly targets: readonly AliasTarget[];
  /** Tried in this order after the targets. */
  readonly fallbacks: readonly string[];
  /** Requests of one conversation go to the same target while it can serve. */
  readonly isSticky: boolean;
  readonly updatedAtMs: number;
}

/** `unit`: a number from 0 up to, not including, 1. Returns all models of the alias: the chosen target first, then the rest by weight, then the fallbacks. */
export function modelsOf({ targets, fallbacks }: ModelAlias, unit: number): readonly string[] {
  const total = targets.reduce((sum, { weight }) => sum + weight, 0);
  let left = unit * total;
  const chosen = targets.find(({ weight }) => {
    left -= weight;
    return weight > 0 && left < 0;
  });
  const others = targets.filter((target) => target !== chosen).toSorted((a, b) => b.weight - a.weight);
  return [...new Set([...(chosen ? [chosen] : []), ...others].map(({ model }) => model).concat(fallbacks))];
}

/** Caller and its address, for the audit log; `scope` null: for every account. */
export interface AliasEditor {
  /** As in `Act`. */
  readonly by: string;
  readonly ip: string;
  readonly scope: AccountId | null;
}
