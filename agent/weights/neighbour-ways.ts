// Connections to neighbours: past the operator's proxy, each host's apart from another's, by TLS where the neighbour speaks it.
import { buildConnector, type Dispatcher, Pool } from "undici";
import type { PeerOptions } from "../../proto/peer-tls.ts";

export interface NeighbourAddress {
  /** Origin of its data path. */
  readonly origin: string;
  /** Empty where an earlier control plane did not say it. */
  readonly hostId: string;
}

/** What to open a connection with. Throws when it is no peer of this host. */
export type DialNeighbour = (to: NeighbourAddress) => PeerOptions;

export interface NeighbourWays {
  to(neighbour: NeighbourAddress): Dispatcher;
  /** Cuts what is open. */
  close(): Promise<void>;
}

const connectMs = 10_000;
const mostKept = 32;

export function createNeighbourWays(dial: DialNeighbour): NeighbourWays {
  const pools = new Map<string, Pool>();

  const make = (to: NeighbourAddress): Pool =>
    new Pool(to.origin, {
      // Each connection shows the certificate of its time.
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
      // The one that was asked for last stands last.
      pools.delete(key);
      pools.set(key, pool);
      const [oldest] = pools;
      if (oldest && pools.size > mostKept) {
        pools.delete(oldest[0]);
        // What runs on it ends first.
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
