import type { SuspendReason } from "../../proto/suspend-reason.ts";
import { text } from "../text/suspension.ts";

export interface Suspension {
  readonly why: string;
  readonly act: string;
  /** Page of that action, if it is in the console. */
  readonly page?: string;
}

export function suspensionOf(reason: SuspendReason): Suspension {
  return reason === "admin" ? text[reason] : { ...text[reason], page: "/billing" };
}
