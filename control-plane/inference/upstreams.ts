// Connections to the agents. Requests to one agent share one connection (proto/frames.ts); an agent of an older version, during a
// rollout, gets a keep-alive connection per request instead.
import { buildConnector, type Dispatcher, Pool } from "undici";
import { expiredEndMs as longestExpiredMs } from "../../proto/peer-tls.ts";
import type { DataPathAddress, Dial } from "../fleet/dial.ts";
import { connectShared, NotShared, type SharedConnection } from "./shared-upstream.ts";
import type { UpstreamListener, UpstreamRequest } from "./upstream-call.ts";

export interface Upstreams {
  send(to: DataPathAddress, request: UpstreamRequest, listener: UpstreamListener): void;
  /** Cuts open connections. */
  close(): Promise<void>;
}

const connectMs = 5_000;
/** Interval after which an agent without shared connections is tried again: it may have been updated. */
const retrySharedMs = 60_000;

interface Way {
  readonly to: DataPathAddress;
  shared: SharedConnection | undefined;
  connecting: Promise<SharedConnection> | undefined;
  pool: Pool | undefined;
  /** Monotonic ms until which plain HTTP is used without a new attempt. */
  httpUntilMs: number;
}

/** `expiredEndMs`: time for which requests may outlive the certificates of their connection. */
export function createUpstreams(dial: Dial, expiredEndMs = longestExpiredMs): Upstreams {
  const ways = new Map<string, Way>();
  /** Open connections of all agents, including those that accept no more requests. */
  const open = new Set<SharedConnection>();
  const closing = new AbortController();

  function wayTo({ hostId, origin }: DataPathAddress): Way {
    // Per host: another host at the same address gets its own connection.
    const key = `${origin} ${hostId}`;
    let way = ways.get(key);
    if (!way) {
      way = { to: { hostId, origin }, shared: undefined, connecting: undefined, pool: undefined, httpUntilMs: 0 };
      ways.set(key, way);
    }
    return way;
  }

  async function dialShared(way: Way): Promise<SharedConnection> {
    const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(connectMs)]);
    return connectShared(way.to.origin, dial(way.to), signal, {
      expiredEndMs,
      over(connection) {
        if (way.shared === connection) way.shared = undefined;
      },
      gone: (connection) => open.delete(connection),
    });
  }

  function connect(way: Way): Promise<SharedConnection> {
    way.connecting ??= dialShared(way)
      .then((shared) => {
        if (!shared.isOver) {
          way.shared = shared;
          open.add(shared);
        }
        return shared;
      })
      .finally(() => {
        way.connecting = undefined;
      });
    return way.connecting;
  }

  function sendAlone(way: Way, request: UpstreamRequest, listener: UpstreamListener): void {
    way.pool ??= createPool(way.to, dial);
    const headers = ["content-type", request.contentType ?? "application/json", "x-stoker-ticket", request.ticket];
    const { path, body } = request;
    way.pool.dispatch({ method: "POST", path, headers, body }, listener as Dispatcher.DispatchHandler);
  }

  return {
    send(to, request, listener) {
      const way = wayTo(to);
      if (way.shared) way.shared.send(request, listener);
      else if (performance.now() < way.httpUntilMs) sendAlone(way, request, listener);
      else
        connect(way).then(
          (shared) => shared.send(request, listener),
          (error: Error) => {
            if (!(error instanceof NotShared)) return listener.onResponseError(undefined, error);
            way.httpUntilMs = performance.now() + retrySharedMs;
            sendAlone(way, request, listener);
          },
        );
    },
    async close() {
      closing.abort(new Error("the control plane is shutting down"));
      for (const connection of open) connection.close();
      await Promise.all([...ways.values()].map((way) => way.pool?.destroy()));
      ways.clear();
    },
  };
}

function createPool(to: DataPathAddress, dial: Dial): Pool {
  return new Pool(to.origin, {
    connections: null,
    pipelining: 1,
    // First byte and gaps are bounded by our own deadlines: undici cannot distinguish a long wait in a queue from silence.
    headersTimeout: 0,
    bodyTimeout: 0,
    // Shorter than an agent keeps an idle connection: the side that sends must be the one that closes.
    keepAliveTimeout: 30_000,
    // Each connection uses the current certificate.
    connect(options, done) {
      try {
        buildConnector({ ...dial(to), timeout: connectMs, maxCachedSessions: 0 })(options, done);
      } catch (error) {
        done(error as Error, null);
      }
    },
  });
}
