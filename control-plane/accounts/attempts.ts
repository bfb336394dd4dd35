// Counts attempts per key in windows that start with the first attempt, in PostgreSQL, so all control planes count together.
// Only refused keys are cached here, so further attempts cost no write.
import { TooManyAttempts } from "./errors.ts";
import type { AttemptStore } from "./store.ts";

export interface Attempts {
  /** Counts one. Throws TooManyAttempts with the time to wait, and what the store throws when the database is unavailable. */
  take(key: string): Promise<void>;
  /** Subtracts `count` attempts of the key. */
  giveBack(key: string, count: number): Promise<void>;
  /** Deletes the key's attempts. */
  forgive(key: string): Promise<void>;
}

export interface AttemptsLimit {
  readonly max: number;
  readonly windowMs: number;
  /** Keys are never forgiven: a refused key stays refused until its window ends. */
  readonly isFinal?: boolean;
}

/** Maximum refused keys in memory; the oldest are dropped. */
const maxRefused = 50_000;

/** `what`: name of the limit within the store. */
export function countAttempts(
  what: string,
  limit: AttemptsLimit,
  deps: { readonly store: AttemptStore; readonly unixMs: () => number },
): Attempts {
  const refusedUntil = new Map<string, number>();
  return {
    async take(key) {
      const nowMs = deps.unixMs();
      const known = refusedUntil.get(key) ?? 0;
      if (known > nowMs) throw new TooManyAttempts(known - nowMs);
      refusedUntil.delete(key);
      const { taken, endsAtMs } = await deps.store.countAttempt(`${what} ${key}`, nowMs, limit.windowMs);
      if (taken <= limit.max) return;
      if (limit.isFinal) {
        if (refusedUntil.size >= maxRefused) refusedUntil.delete(refusedUntil.keys().next().value as string);
        refusedUntil.set(key, endsAtMs);
      }
      throw new TooManyAttempts(Math.max(1, endsAtMs - nowMs), taken === limit.max + 1);
    },
    giveBack: (key, count) => deps.store.returnAttempts(`${what} ${key}`, count),
    forgive: (key) => deps.store.forgetAttempts(`${what} ${key}`),
  };
}

/** An IPv6 customer has a whole /64. */
export function networkOf(ip: string): string {
  if (!ip.includes(":") || ip.includes(".")) return ip;
  const [head = "", tail] = ip.split("%")[0]?.split("::") ?? [];
  const left = head.split(":").filter((group) => group !== "");
  const right = tail?.split(":").filter((group) => group !== "") ?? [];
  const gap = tail === undefined ? [] : Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0");
  return [...left, ...gap, ...right].slice(0, 4).join(":");
}
