// Placement as a pure function: filter by requirements, fit free capacity, score. Dry runs ("will it fit", "why is it
// pending") use the same code; frequent callers keep an index (place-index.ts).
import type { HostView } from "../fleet/host.ts";
import { createPlacementIndex } from "./place-index.ts";
import { type Rejection, rejections } from "./place-reasons.ts";
import type { Placed, Want } from "./want.ts";

export type Placement =
  | ({ readonly ok: true } & Placed)
  | { readonly ok: false; readonly rejections: readonly Rejection[] };

export function place(want: Want, hosts: readonly HostView[]): Placement {
  const placed = createPlacementIndex(hosts).place(want);
  return placed ? { ok: true, ...placed } : { ok: false, rejections: rejections(want, hosts) };
}
