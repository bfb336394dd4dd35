// Limits concurrent reports. Each holds one database connection for up to the statement limit; requests, leases and settlement
// need connections at the same time.
import type { AccountId } from "../../proto/ids.ts";
import { rateLimited } from "../service-error.ts";

export const reportsBusy = () =>
  rateLimited("too_many_reports", "Too many concurrent reports. Try again in a few seconds.", { retryAfterSeconds: 3 });

export interface ReportSlots {
  /**
   * Waits for a slot and returns the result of `read`. The slot is held until `read` ends, also after the client disconnected,
   * because its statement continues. Throws reportsBusy, and what `read` throws.
   */
  run<T>(account: AccountId, read: () => Promise<T>): Promise<T>;
}

/** Maximum concurrent reports of one account: two people with a page each. */
const maxPerAccount = 2;
/** Maximum concurrent reports, for any number of connections. */
const maxTotal = 4;
/** A page of the console requests a few concurrently, and most take milliseconds. */
const usualWaitMs = 2_000;
/** Maximum waiting reports of one account. */
const maxWaiting = 8;

interface Waiter {
  readonly account: AccountId;
  readonly enter: () => void;
}

/** `connections`: maximum database connections, of which reports use at most a quarter. `waitMs`: maximum wait for a slot. */
export function createReportSlots(deps: { readonly connections: number; readonly waitMs?: number }): ReportSlots {
  const { connections, waitMs = usualWaitMs } = deps;
  const limit = Math.max(1, Math.min(maxTotal, Math.floor(connections / 4)));
  const running = new Map<AccountId, number>();
  let total = 0;
  let waiting: readonly Waiter[] = [];

  const isFree = (account: AccountId) => total < limit && (running.get(account) ?? 0) < maxPerAccount;

  function take(account: AccountId): void {
    total += 1;
    running.set(account, (running.get(account) ?? 0) + 1);
  }

  function giveBack(account: AccountId): void {
    total -= 1;
    const left = (running.get(account) ?? 1) - 1;
    if (left > 0) running.set(account, left);
    else running.delete(account);
    const next = waiting.find((one) => isFree(one.account));
    if (!next) return;
    take(next.account);
    next.enter();
  }

  async function entered(account: AccountId): Promise<void> {
    if (isFree(account)) {
      take(account);
      return;
    }
    if (waiting.filter((one) => one.account === account).length >= maxWaiting) throw reportsBusy();
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer);
        waiting = waiting.filter((one) => one !== waiter);
      };
      const waiter: Waiter = {
        account,
        enter() {
          leave();
          resolve();
        },
      };
      const timer = setTimeout(() => {
        leave();
        reject(reportsBusy());
      }, waitMs);
      waiting = [...waiting, waiter];
    });
  }

  return {
    async run(account, read) {
      await entered(account);
      try {
        return await read();
      } finally {
        giveBack(account);
      }
    },
  };
}
