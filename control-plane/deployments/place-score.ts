// Which of several hosts that fit. One order, so that the same fleet always gives the same answer.
import type { HostView } from "../fleet/host.ts";
import type { Fit } from "./place-fit.ts";
import type { Want } from "./want.ts";

export interface Scored {
  readonly fit: Fit;
  /** Instances of the same deployment there: one host lost must not take all of them. */
  readonly beside: number;
  /** Its weights are there. */
  readonly isLocal: boolean;
}

export function score(want: Want, host: HostView, fit: Fit): Scored {
  return {
    fit,
    beside: want.spread?.get(host.id) ?? 0,
    isLocal: want.weights !== undefined && host.keptWeights.has(want.weights),
  };
}

/**
 * Apart from its like; then in what its account has begun to use; then where its weights are; then the tightest fit, since a
 * whole empty host is worth more to an 8-GPU model than to this one; then by id.
 */
export function compare(a: Scored, b: Scored): number {
  return (
    a.beside - b.beside ||
    Number(b.fit.isJoining) - Number(a.fit.isJoining) ||
    Number(b.isLocal) - Number(a.isLocal) ||
    a.fit.left - b.fit.left ||
    (a.fit.host < b.fit.host ? -1 : 1)
  );
}
