// Who comes in to the data path. On this machine alone it is plain HTTP and a ticket is all that is asked for. Else it is mutual
// TLS: gateways of our authority may ask for everything, other hosts of it for the weights here, and nobody else gets a word in.
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
  /** Shown from now on; undefined before this host has joined: no handshake succeeds until then. */
  certificate(): OwnCertificate | undefined;
  /** There is another one. What is open stays open. */
  onCertificate(listener: () => void): void;
  isRevoked(host: HostId): boolean;
  /** Some host was revoked, or is no more. */
  onRevoked(listener: () => void): void;
}

export interface Door {
  readonly server: Server;
  /** Whether the peer of this connection may ask for this path; tickets are looked at afterwards. */
  allows(socket: Duplex, url: string): boolean;
  /** A certificate that opened this connection has expired: it takes nothing new, and is cut in the end. */
  isExpired(socket: Duplex): boolean;
}

const handshakeMs = 10_000;
/** A session that is taken up again shows no certificate: who had one that has expired would still come in. */
const fresh = { ...peerTlsVersion, secureOptions: constants.SSL_OP_NO_TICKET };
/** A stranger who knocks again and again fills no disk. */
const tellEveryMs = 10_000;

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
      log.warn({ peer, ip: socket.remoteAddress }, "a peer of the data path was refused by its certificate");
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
  let toldMs = Number.NEGATIVE_INFINITY;
  server.on("tlsClientError", (err: Error, socket: TLSSocket) => {
    socket.destroy();
    if (performance.now() - toldMs < tellEveryMs) return;
    toldMs = performance.now();
    log.warn({ err, ip: socket.remoteAddress }, "a TLS handshake of the data path failed");
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
