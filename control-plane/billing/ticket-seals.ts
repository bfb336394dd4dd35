import type { SealKey } from "../../proto/ticket.ts";

/** Keys that seal tickets. All control planes of an installation have the same; no host has any. */
export interface TicketSeals {
  /** Seals new tickets. */
  newest(): SealKey;
  /** `newer`: made by a rotation that has not reached this control plane yet. `removed`: no longer among the secrets. */
  find(version: number): Buffer | "newer" | "removed";
}
