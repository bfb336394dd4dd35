// Placement as a pure function: filter by what must hold, fit what is free, score what fits. The dry runs ("will it fit",
// "why is it pending") are this same code; whoever places often keeps an index (place-index.ts).
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
