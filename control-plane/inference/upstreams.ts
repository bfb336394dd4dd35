import { type Dispatcher, Pool } from "undici";

/** One keep-alive pool per agent. */
export interface Upstreams {
  to(origin: string): Dispatcher;
  /** Cuts what is left open. */
  close(): Promise<void>;
}

export function createUpstreams(): Upstreams {
  const pools = new Map<string, Pool>();
  return {
    to(origin) {
      let pool = pools.get(origin);
      if (!pool) {
        pool = new Pool(origin, {
          connections: null,
          pipelining: 1,
          // First byte and gaps are bounded by our own deadlines: undici cannot tell a long wait in a queue from silence.
          headersTimeout: 0,
          bodyTimeout: 0,
          // Shorter than an agent keeps an idle connection: the side that sends must be the one that closes.
          keepAliveTimeout: 30_000,
          connect: { timeout: 5_000 },
        });
        pools.set(origin, pool);
      }
      return pool;
    },
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
      pools.clear();
    },
  };
}
