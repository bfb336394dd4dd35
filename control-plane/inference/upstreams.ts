// The ways to the agents. Requests to one agent share one connection (proto/frames.ts) where the agent knows how, and go over
// keep-alive connections of their own where it does not: an agent of an older version during a rollout.
import { type Dispatcher, Pool } from "undici";
import { connectShared, NotShared, type SharedConnection } from "./shared-upstream.ts";
import type { UpstreamListener, UpstreamRequest } from "./upstream-call.ts";

export interface Upstreams {
  send(origin: string, request: UpstreamRequest, listener: UpstreamListener): void;
  /** Cuts what is left open. */
  close(): Promise<void>;
}

const connectMs = 5_000;
/** An agent that knows no shared connections is asked again after this long: it may have been replaced. */
const askAgainMs = 60_000;

interface Way {
  shared: SharedConnection | undefined;
  connecting: Promise<SharedConnection> | undefined;
  pool: Pool | undefined;
  /** Monotonic ms until which HTTP is spoken without asking. */
  httpUntilMs: number;
}

export function createUpstreams(): Upstreams {
  const ways = new Map<string, Way>();
  const closing = new AbortController();

  function wayTo(origin: string): Way {
    let way = ways.get(origin);
    if (!way) {
      way = { shared: undefined, connecting: undefined, pool: undefined, httpUntilMs: 0 };
      ways.set(origin, way);
    }
    return way;
  }

  function connect(origin: string, way: Way): Promise<SharedConnection> {
    way.connecting ??= connectShared(origin, AbortSignal.any([closing.signal, AbortSignal.timeout(connectMs)]), () => {
      way.shared = undefined;
    })
      .then((shared) => {
        if (!shared.isClosed) way.shared = shared;
        return shared;
      })
      .finally(() => {
        way.connecting = undefined;
      });
    return way.connecting;
  }

  function sendAlone(origin: string, way: Way, request: UpstreamRequest, listener: UpstreamListener): void {
    way.pool ??= createPool(origin);
    const headers = ["content-type", request.contentType ?? "application/json", "x-stoker-ticket", request.ticket];
    const { path, body } = request;
    way.pool.dispatch({ method: "POST", path, headers, body }, listener as Dispatcher.DispatchHandler);
  }

  return {
    send(origin, request, listener) {
      const way = wayTo(origin);
      if (way.shared) way.shared.send(request, listener);
      else if (performance.now() < way.httpUntilMs) sendAlone(origin, way, request, listener);
      else
        connect(origin, way).then(
          (shared) => shared.send(request, listener),
          (error: Error) => {
            if (!(error instanceof NotShared)) return listener.onResponseError(undefined, error);
            way.httpUntilMs = performance.now() + askAgainMs;
            sendAlone(origin, way, request, listener);
          },
        );
    },
    async close() {
      closing.abort(new Error("the control plane is shutting down"));
      for (const way of ways.values()) way.shared?.close();
      await Promise.all([...ways.values()].map((way) => way.pool?.destroy()));
      ways.clear();
    },
  };
}

function createPool(origin: string): Pool {
  return new Pool(origin, {
    connections: null,
    pipelining: 1,
    // First byte and gaps are bounded by our own deadlines: undici cannot tell a long wait in a queue from silence.
    headersTimeout: 0,
    bodyTimeout: 0,
    // Shorter than an agent keeps an idle connection: the side that sends must be the one that closes.
    keepAliveTimeout: 30_000,
    connect: { timeout: connectMs },
  });
}
