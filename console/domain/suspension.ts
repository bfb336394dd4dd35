import type { SuspendReason } from "../../proto/suspend-reason.ts";
import { text } from "../text/suspension.ts";
import type { Checklist } from "./checklist.ts";

export interface Suspension {
  readonly why: string;
  readonly act: string;
  /** Page of that action, if it is in the console. */
  readonly page?: string;
}

export function suspensionOf(reason: SuspendReason): Suspension {
  return reason === "admin" ? text[reason] : { ...text[reason], page: "/billing" };
}

/** Whole percent of the monthly limit that is spent, from 80 on. */
export function nearLimitOf({ limit, limit_spend: spend }: Checklist): number | undefined {
  if (limit === null || spend === null || limit <= 0) return undefined;
  const percent = Math.floor((spend / limit) * 100);
  return percent >= 80 ? percent : undefined;
}
