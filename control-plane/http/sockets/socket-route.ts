// Protocols over WebSockets: what a path of the API declares, and the session that it opens.
import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { RouteMeter } from "../core/edge-metrics.ts";
import type { Dialect } from "../errors/error-body.ts";
import type { OpenSocket } from "./open-socket.ts";

/** A protocol over a socket. Implementations must not throw. */
export interface SocketSession {
  /** Requests run or wait. */
  readonly isBusy: boolean;
  /** Maximum time without a message while nothing runs. */
  readonly idleMs: number;
  message(text: string): void;
  /** Ends the session when the running request has ended. */
  leave(): void;
  /** The client is silent for too long. */
  idle(): void;
  closed(): void;
}

export interface SocketRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
}

export interface SocketRoute {
  /** Pattern in logs and metrics. */
  readonly path: string;
  readonly dialect: Dialect;
  /** Matches the path of a URL; named groups are parameters. */
  readonly matches: RegExp;
  readonly right: "infer" | "realtime";
  /** Prefix of the subprotocol that carries a key; undefined: none does. */
  readonly keyProtocol?: string;
  /** Reads the key in the first message of a client that sent none with its request; undefined: none may. */
  readonly keyIn?: (message: string) => string | undefined;
  /** Frame that reports an error before the close. */
  readonly errorMessage: (error: unknown, requestId: string) => object;
  /** Throws a ServiceError, which refuses the upgrade. */
  check(request: SocketRequest): void;
  open(socket: OpenSocket, request: SocketRequest): SocketSession;
}

/** A request that may become a session. */
export interface Arrival {
  readonly route: SocketRoute;
  readonly meter: RouteMeter;
  readonly request: SocketRequest;
  readonly requestId: string;
  readonly address: string;
  readonly isSecure: boolean;
  readonly connection: Socket;
  readonly startedMs: number;
}
