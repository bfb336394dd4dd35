import { asking } from "./outage.ts";

type Methods<T> = { readonly [K in keyof T]: T[K] extends (...args: never[]) => Promise<unknown> ? T[K] : never };

/** Returns the same store; its methods throw DatabaseUnavailable during an outage of PostgreSQL. */
export function asked<T extends Methods<T>>(store: T): T {
  const methods = Object.entries(store) as [string, (...args: unknown[]) => Promise<unknown>][];
  return Object.fromEntries(
    methods.map(([name, method]) => [name, (...args: unknown[]) => asking(() => method.apply(store, args))]),
  ) as T;
}
