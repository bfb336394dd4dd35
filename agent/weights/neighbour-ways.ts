// Connections to neighbours: without the operator's proxy, one pool per host, over TLS if the neighbour supports it.
import { buildConnector, type Dispatcher, Pool } from "undici";
import type { PeerOptions } from "../../proto/peer-tls.ts";

export interface NeighbourAddress {
  /** Origin of its data path. */
  readonly origin: string;
  /** Empty if sent by an earlier control plane. */
  readonly hostId: string;
}

/** Returns the options of a connection. Throws for a host that is no peer. */
export type DialNeighbour = (to: NeighbourAddress) => PeerOptions;

export interface NeighbourWays {
  to(neighbour: NeighbourAddress): Dispatcher;
  /** Cuts open connections. */
  close(): Promise<void>;
}

const connectMs = 10_000;
const maxKept = 32;

export function createNeighbourWays(dial: DialNeighbour): NeighbourWays {
  const pools = new Map<string, Pool>();

  const make = (to: NeighbourAddress): Pool =>
    new Pool(to.origin, {
      // Each connection uses the certificate current at its start.
      connect(options, done) {
        try {
          buildConnector({ ...dial(to), timeout: connectMs, maxCachedSessions: 0 })(options, done);
        } catch (error) {
          done(error as Error, null);
        }
      },
    });

  return {
    to({ origin, hostId }) {
      const key = `${origin} ${hostId}`;
      const pool = pools.get(key) ?? make({ origin, hostId });
      // Move the most recently used one to the end.
      pools.delete(key);
      pools.set(key, pool);
      const [oldest] = pools;
      if (oldest && pools.size > maxKept) {
        pools.delete(oldest[0]);
        // Running transfers end first.
        void oldest[1].close();
      }
      return pool;
    },
    async close() {
      const all = [...pools.values()];
      pools.clear();
      await Promise.all(all.map((pool) => pool.destroy()));
    },
  };
}
