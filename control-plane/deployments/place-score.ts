// Order of hosts that fit. Total, so that the same fleet always gives the same result.
import type { HostView } from "../fleet/host.ts";
import type { Fit } from "./place-fit.ts";
import type { Want } from "./want.ts";

export interface Scored {
  readonly fit: Fit;
  /** Sibling instances there: the loss of one host must not take all of them. */
  readonly beside: number;
  /** Its weights are present. */
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
 * Orders by fewest siblings; then GPUs already shared by the account; then weights present; then the tightest fit, because
 * an empty host is worth more to an 8-GPU model; then id.
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
