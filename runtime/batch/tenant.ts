// Account of a request for the queues of this server. Ambient, so that a queue far below the HTTP layer takes turns by tenant
// without each task passing the name.
import { AsyncLocalStorage } from "node:async_hooks";

const store = new AsyncLocalStorage<string>();

/** Name for requests that carry none: they count as one tenant. */
export const noTenant = "";

/** Runs `work`, and everything it starts, for that tenant. */
export function asTenant<T>(tenant: string, work: () => T): T {
  return store.run(tenant, work);
}

export function currentTenant(): string {
  return store.getStore() ?? noTenant;
}
