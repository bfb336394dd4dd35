// Connections to dashboards through the agent of their host, which connects to the one port in the instance's specification. Each
// instance has one pool; each of its connections is a tunnel that was opened with its own ticket.
import type { Socket } from "node:net";
import { type buildConnector, Pool } from "undici";
import { dashboardPath, dashboardProtocol, dashboardPurpose } from "../../../proto/dashboard-tunnel.ts";
import { expiredEndMs, onceExpired } from "../../../proto/peer-tls.ts";
import type { DashboardWay } from "../../agent-instances/dashboards.ts";
import { DashboardBusy, DashboardHostUnavailable } from "../../agent-instances/errors.ts";
import type { Dial } from "../../fleet/dial.ts";
import { openTunnel, TunnelRefused } from "../../fleet/open-tunnel.ts";

const maxPools = 500;
const connectMs = 8_000;
const headersMs = 60_000;
const silenceMs = 5 * 60_000;
/** Less than servers keep an idle connection, so that the sending side closes it. */
const idleMs = 2_000;

/** `connections`: maximum of one instance. With fewer than admitted requests, some would wait without a limit. */
export function createWays(connections: number, dial: Dial) {
  const pools = new Map<string, { readonly pool: Pool; way: DashboardWay }>();

  function make(way: DashboardWay) {
    const entry = { pool: undefined as unknown as Pool, way };
    entry.pool = new Pool("http://dashboard", {
      connections,
      pipelining: 1,
      headersTimeout: headersMs,
      bodyTimeout: silenceMs,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
      // The current address and key of the agent: they change with its registration.
      connect: (_options: buildConnector.Options, done: buildConnector.Callback) => {
        tunnelTo(entry.way, dial).then(
          (socket) => {
            onceExpired(socket, 0, () => retire(entry));
            onceExpired(socket, expiredEndMs, () => socket.destroy());
            done(null, socket);
          },
          (error: Error) => done(error, null),
        );
      },
    });
    return entry;
  }

  /** Closes the pool after its running requests; the next request creates another. */
  function retire(entry: { readonly pool: Pool; readonly way: DashboardWay }): void {
    if (pools.get(entry.way.instance) !== entry) return;
    pools.delete(entry.way.instance);
    void entry.pool.close();
  }

  return {
    /** Returns the pool without opening a connection. */
    to(way: DashboardWay): Pool {
      const known = pools.get(way.instance) ?? make(way);
      known.way = way;
      // The last used pool is last.
      pools.delete(way.instance);
      pools.set(way.instance, known);
      const [oldest] = pools.values();
      if (oldest && pools.size > maxPools) retire(oldest);
      return known.pool;
    },
    /** Closes all connections. */
    async close(): Promise<void> {
      const all = [...pools.values()];
      pools.clear();
      await Promise.all(all.map(({ pool }) => pool.destroy()));
    },
  };
}

/** Rejects with DashboardBusy, DashboardHostUnavailable, or the reason why the dashboard is unreachable. */
async function tunnelTo(way: DashboardWay, dial: Dial): Promise<Socket> {
  const path = dashboardPath(way.instance);
  const kind = { path, protocol: dashboardProtocol, purpose: dashboardPurpose, openMs: connectMs };
  try {
    return await openTunnel(way, kind, dial);
  } catch (error) {
    const status = error instanceof TunnelRefused ? error.status : undefined;
    if (status === 429) throw new DashboardBusy();
    throw status === 502 ? error : new DashboardHostUnavailable(error);
  }
}

export type Ways = ReturnType<typeof createWays>;
