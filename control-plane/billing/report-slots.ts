// Reports read many rows, each on one connection for as long as a statement may take. Few of them run at once, so that
// requests, leases and settlement find a connection whatever anybody asks for.
import type { AccountId } from "../../proto/ids.ts";
import { rateLimited } from "../service-error.ts";

export const reportsBusy = () =>
  rateLimited("too_many_reports", "Too many concurrent reports. Try again in a few seconds.", { retryAfterSeconds: 3 });

export interface ReportSlots {
  /**
   * What `read` comes to, once there is a place. The place is taken until `read` has ended, also where the client has left:
   * its statement runs on. Throws reportsBusy, and what `read` throws.
   */
  run<T>(account: AccountId, read: () => Promise<T>): Promise<T>;
}

/** At once for one account: two people look at a page each. */
const maxPerAccount = 2;
/** At once in all, of however many connections. */
const maxTotal = 4;
/** A page of the console asks for a few at a time, and most take milliseconds. */
const usualWaitMs = 2_000;
/** Of one account. */
const maxWaiting = 8;

interface Waiter {
  readonly account: AccountId;
  readonly enter: () => void;
}

/** `connections`: to the database, in all; at most a quarter of them reads reports. `waitMs`: for a place. */
export function createReportSlots(deps: { readonly connections: number; readonly waitMs?: number }): ReportSlots {
  const { connections, waitMs = usualWaitMs } = deps;
  const inAll = Math.max(1, Math.min(maxTotal, Math.floor(connections / 4)));
  const running = new Map<AccountId, number>();
  let total = 0;
  let waiting: readonly Waiter[] = [];

  const isFree = (account: AccountId) => total < inAll && (running.get(account) ?? 0) < maxPerAccount;

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
