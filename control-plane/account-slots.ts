// Limits how many operations run at once, for each account and for all, and how many an account starts in a minute.
import type { AccountId } from "../proto/ids.ts";

export interface AccountSlots {
  /**
   * Waits for a slot and returns the result of `work`. The slot is held until `work` ends, also after the client disconnected,
   * because what it started continues. Throws `busy()`, `perMinute.exceeded()`, and what `work` throws.
   */
  run<T>(account: AccountId, work: () => Promise<T>): Promise<T>;
}

export interface AccountSlotLimits {
  readonly total: number;
  readonly perAccount: number;
  /** Maximum wait for a slot. */
  readonly waitMs: number;
  readonly busy: () => Error;
  /** Undefined: an account may start any number in a minute. */
  readonly perMinute?: { readonly max: number; readonly exceeded: (retryAfterSeconds: number) => Error };
  /** Monotonic ms. */
  readonly nowMs?: () => number;
}

/** Maximum waiting operations of one account. */
const maxWaiting = 8;
const minuteMs = 60_000;

interface Waiter {
  readonly account: AccountId;
  readonly enter: () => void;
}

export function createAccountSlots(limits: AccountSlotLimits): AccountSlots {
  const { total: maxTotal, perAccount, waitMs, busy, perMinute, nowMs = () => performance.now() } = limits;
  let minute = 0;
  /** By account, in this minute. */
  let started = new Map<AccountId, number>();
  const running = new Map<AccountId, number>();
  let total = 0;
  let waiting: readonly Waiter[] = [];

  const isFree = (account: AccountId) => total < maxTotal && (running.get(account) ?? 0) < perAccount;

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

  function countStart(account: AccountId): void {
    if (!perMinute) return;
    const atMs = nowMs();
    if (Math.floor(atMs / minuteMs) !== minute) {
      minute = Math.floor(atMs / minuteMs);
      started = new Map();
    }
    const count = (started.get(account) ?? 0) + 1;
    if (count > perMinute.max) throw perMinute.exceeded(Math.ceil((minuteMs - (atMs % minuteMs)) / 1000));
    started.set(account, count);
  }

  async function entered(account: AccountId): Promise<void> {
    if (isFree(account)) {
      take(account);
      return;
    }
    if (waiting.filter((one) => one.account === account).length >= maxWaiting) throw busy();
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
        reject(busy());
      }, waitMs);
      waiting = [...waiting, waiter];
    });
  }

  return {
    async run(account, work) {
      countStart(account);
      await entered(account);
      try {
        return await work();
      } finally {
        giveBack(account);
      }
    },
  };
}
