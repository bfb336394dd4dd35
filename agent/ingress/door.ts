// Admits connections to the data path. On a loopback address it is plain HTTP, and a ticket is enough. Otherwise it is mutual
// TLS: gateways of our authority may use every path, other hosts of it only the weights, and everyone else is refused.
import { constants } from "node:crypto";
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import { type OwnCertificate, onceExpired, type Peer, peerOf, peerTlsVersion } from "../../proto/peer-tls.ts";
import type { Limits } from "./limits.ts";

export interface IngressTls {
  /** Current certificate; undefined before this host has joined: no handshake succeeds until then. */
  certificate(): OwnCertificate | undefined;
  /** The certificate changed. Open connections stay open. */
  onCertificate(listener: () => void): void;
  isRevoked(host: HostId): boolean;
  onRevoked(listener: () => void): void;
}

interface Door {
  readonly server: Server;
  /** True when the peer of this connection may use this path; tickets are checked afterwards. */
  allows(socket: Duplex, url: string): boolean;
  /** The certificate that opened this connection has expired: it accepts no new request and is cut later. */
  isExpired(socket: Duplex): boolean;
}

const handshakeMs = 10_000;
/** Disables resumption: a resumed session shows no certificate, so a peer with an expired one would still be admitted. */
const fresh = { ...peerTlsVersion, secureOptions: constants.SSL_OP_NO_TICKET };
/** Limits the log lines that refused connections can cause. */
const logEveryMs = 10_000;

export function openDoor(
  tls: IngressTls | undefined,
  options: ServerOptions,
  limits: Pick<Limits, "expiredPatienceMs" | "expiredEndMs">,
  route: RequestListener,
  log: Pick<Logger, "warn">,
): Door {
  if (!tls) return { server: createServer(options, route), allows: () => true, isExpired: () => false };
  const shown = () => {
    const own = tls.certificate();
    return { ...fresh, ...(own ? { cert: own.certificatePem, key: own.keyPem, ca: own.caPem } : {}) };
  };
  const demanded = { requestCert: true, rejectUnauthorized: true, handshakeTimeout: handshakeMs };
  const server = createSecureServer({ ...options, ...demanded, ...shown() }, route);
  tls.onCertificate(() => server.setSecureContext(shown()));

  const peers = new Map<Duplex, Peer>();
  const expired = new WeakSet<Duplex>();
  const mayStay = (peer: Peer): boolean => peer.kind === "gateway" || !tls.isRevoked(peer.id);
  server.on("secureConnection", (socket: TLSSocket) => {
    const peer = peerOf(socket.getPeerCertificate());
    if (!peer || !mayStay(peer)) {
      log.warn({ peer, ip: socket.remoteAddress }, "refused a data path peer by its certificate");
      socket.destroy();
      return;
    }
    peers.set(socket, peer);
    socket.once("close", () => peers.delete(socket));
    onceExpired(socket, limits.expiredPatienceMs, () => expired.add(socket));
    onceExpired(socket, limits.expiredEndMs, () => socket.destroy());
  });
  tls.onRevoked(() => {
    for (const [socket, peer] of peers) if (!mayStay(peer)) socket.destroy();
  });
  let loggedMs = Number.NEGATIVE_INFINITY;
  server.on("tlsClientError", (err: Error, socket: TLSSocket) => {
    socket.destroy();
    if (performance.now() - loggedMs < logEveryMs) return;
    loggedMs = performance.now();
    log.warn({ err, ip: socket.remoteAddress }, "data path TLS handshake failed");
  });

  return {
    server,
    allows(socket, url) {
      const peer = peers.get(socket);
      return peer !== undefined && (peer.kind === "gateway" || url.startsWith("/weights/"));
    },
    isExpired: (socket) => expired.has(socket),
  };
}
