// Mutual TLS on data paths, between gateways and agents and among agents. The one URI of a certificate, signed by the
// installation's authority, is the peer's identity. Names and addresses are not checked, so a host may be reached by any.
import type { Duplex } from "node:stream";
import { type ConnectionOptions, createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import type { HostId } from "./ids.ts";

export interface OwnCertificate {
  /** X.509; the leaf first. */
  readonly certificatePem: string;
  readonly keyPem: string;
  /** The installation's authority. */
  readonly caPem: string;
}

export type Peer =
  | { readonly kind: "host"; readonly id: HostId }
  /** A control plane that sends requests to hosts. */
  | { readonly kind: "gateway"; readonly id: string };

/** The peer has another identity or is not allowed. The message continues "the host at ...". */
export class PeerRefused extends Error {
  override readonly name = "PeerRefused";
}

export const hostUri = (id: HostId): string => `${hostPrefix}${id}`;
export const gatewayUri = (id: string): string => `${gatewayPrefix}${id}`;

const hostPrefix = "spiffe://stoker/node/";
const gatewayPrefix = "spiffe://stoker/gateway/";
/** Server name for TLS, which accepts no address there. Never resolved. */
const serverName = "data-path.stoker.internal";

export const peerTlsVersion = { minVersion: "TLSv1.3" } as const;

export function peerOf({ subjectaltname = "" }: { readonly subjectaltname?: string | undefined }): Peer | undefined {
  const uri = /^URI:([^\s,"]+)$/.exec(subjectaltname)?.[1] ?? "";
  if (uri.startsWith(hostPrefix)) return { kind: "host", id: uri.slice(hostPrefix.length) as HostId };
  if (uri.startsWith(gatewayPrefix)) return { kind: "gateway", id: uri.slice(gatewayPrefix.length) };
  return undefined;
}

/** Options of a connection to a peer besides its address; empty for plain HTTP. */
export type PeerOptions = Pick<
  ConnectionOptions,
  "secureContext" | "servername" | "ALPNProtocols" | "rejectUnauthorized" | "checkServerIdentity"
>;

/** Made once per certificate. Throws when its parts do not belong together. */
export const peerContext = ({ certificatePem, keyPem, caPem }: OwnCertificate): SecureContext =>
  createSecureContext({ cert: certificatePem, key: keyPem, ca: caPem, ...peerTlsVersion });

/** For a connection to the data path of this very host. No session is kept: its resumption would skip the look at the name. */
export const dialOptions = (context: SecureContext, host: HostId): PeerOptions => ({
  secureContext: context,
  servername: serverName,
  ALPNProtocols: ["http/1.1"],
  rejectUnauthorized: true,
  checkServerIdentity: (_, certificate) => {
    const peer = peerOf(certificate);
    if (peer?.kind === "host" && peer.id === host) return undefined;
    const shown = peer?.kind === "host" ? `that of host ${peer.id}` : "not a host's";
    return new PeerRefused(
      `shows a certificate that is ${shown}: another program listens at the address that this host announces; ` +
        "correct STOKER_ADVERTISE of its agent, or the proxy in front of it",
    );
  },
});

/** Time for which requests may outlive the certificates of their connection; then they are cut. */
export const expiredEndMs = 3_600_000;
/** Maximum delay of a timer, 24 days; a longer one would fire at once. */
const longestTimerMs = 2 ** 31 - 1;

/**
 * `listener`: called `laterMs` after the first of the two certificates that opened this connection has expired, if it is still open;
 * never without TLS. Counted from now on by the monotonic clock: a step of the wall clock cuts nothing.
 */
export function onceExpired(socket: Duplex, laterMs: number, listener: () => void): void {
  if (!(socket instanceof TLSSocket)) return;
  const shown = [socket.getCertificate(), socket.getPeerCertificate()] as readonly { readonly valid_to?: string }[];
  const endsMs = Math.min(...shown.flatMap((one) => (one?.valid_to ? [Date.parse(one.valid_to)] : [])));
  const leftMs = Math.max(0, endsMs - Date.now()) + laterMs;
  let timer: NodeJS.Timeout;
  const arm = (ms: number): void => {
    const onwards = () => (ms > longestTimerMs ? arm(ms - longestTimerMs) : listener());
    timer = setTimeout(onwards, Math.min(ms, longestTimerMs)).unref();
  };
  arm(leftMs);
  socket.once("close", () => clearTimeout(timer));
}
