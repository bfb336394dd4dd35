// Counts attempts per key in windows that begin with the first one. In memory: with several replicas each counts its own.
import { TooManyAttempts } from "./errors.ts";

export interface Attempts {
  /** Counts one. Throws TooManyAttempts with the time to wait. */
  take(key: string): void;
  /** Forgets the key's attempts. */
  forgive(key: string): void;
}

export interface AttemptsLimit {
  readonly most: number;
  readonly windowMs: number;
  /** The oldest windows are dropped beyond it. */
  readonly mostKeys: number;
}

export function countAttempts(limit: AttemptsLimit, nowMs: () => number): Attempts {
  const windows = new Map<string, { readonly endMs: number; taken: number }>();
  return {
    take(key) {
      const now = nowMs();
      const open = windows.get(key);
      if (open && open.endMs > now) {
        if (open.taken >= limit.most) throw new TooManyAttempts(open.endMs - now);
        open.taken += 1;
        return;
      }
      windows.delete(key);
      if (windows.size >= limit.mostKeys) windows.delete(windows.keys().next().value as string);
      windows.set(key, { endMs: now + limit.windowMs, taken: 1 });
    },
    forgive: (key) => void windows.delete(key),
  };
}

/** One IPv6 customer has a whole /64 to come from. */
export function networkOf(ip: string): string {
  if (!ip.includes(":") || ip.includes(".")) return ip;
  const [head = "", tail] = ip.split("%")[0]?.split("::") ?? [];
  const left = head.split(":").filter((group) => group !== "");
  const right = tail?.split(":").filter((group) => group !== "") ?? [];
  const gap = tail === undefined ? [] : Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0");
  return [...left, ...gap, ...right].slice(0, 4).join(":");
}
