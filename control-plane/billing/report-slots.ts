// Limits concurrent reports. Each holds one database connection for up to the statement limit; requests, leases and settlement
// need connections at the same time.
import { type AccountSlots, createAccountSlots } from "../account-slots.ts";
import { rateLimited } from "../service-error.ts";

export const reportsBusy = () =>
  rateLimited("too_many_reports", "Too many concurrent reports. Try again in a few seconds.", { retryAfterSeconds: 3 });

/** Maximum concurrent reports of one account: two people with a page each. */
const maxPerAccount = 2;
/** Maximum concurrent reports, for any number of connections. */
const maxTotal = 4;
/** A page of the console requests a few concurrently, and most take milliseconds. */
const usualWaitMs = 2_000;

/** `connections`: maximum database connections, of which reports use at most a quarter. `waitMs`: maximum wait for a slot. */
export function createReportSlots(deps: { readonly connections: number; readonly waitMs?: number }): AccountSlots {
  const { connections, waitMs = usualWaitMs } = deps;
  const total = Math.max(1, Math.min(maxTotal, Math.floor(connections / 4)));
  return createAccountSlots({ total, perAccount: maxPerAccount, waitMs, busy: reportsBusy });
}
