// TLS at both ends of this host's data path: the certificate it shows to clients, and the one it shows to neighbours.
import type { SecureContext } from "node:tls";
import { isLoopbackHost } from "../../proto/address-rules.ts";
import type { HostId } from "../../proto/ids.ts";
import { dialOptions, PeerRefused, peerContext } from "../../proto/peer-tls.ts";
import type { IngressTls } from "../ingress/door.ts";
import type { BarredHosts } from "../session/barred-hosts.ts";
import type { Identity } from "../session/identity.ts";
import type { DialNeighbour } from "../weights/neighbour-ways.ts";

export interface DataPathTls {
  readonly ingress: IngressTls;
  readonly dial: DialNeighbour;
}

export function createDataPathTls(
  identity: Pick<Identity, "current" | "onCertificate">,
  barred: Pick<BarredHosts, "has" | "onChange">,
  /** The operator of this host allows plain HTTP to other machines. */
  isPlainAllowed: boolean,
): DataPathTls {
  let context: SecureContext | undefined;
  identity.onCertificate(() => {
    context = undefined;
  });

  return {
    ingress: {
      certificate: identity.current,
      onCertificate: identity.onCertificate,
      isRevoked: barred.has,
      onRevoked: barred.onChange,
    },
    dial({ origin, hostId }) {
      if (barred.has(hostId as HostId)) throw new PeerRefused(`is revoked: host ${hostId}`);
      if (!origin.startsWith("https:")) {
        if (isPlainAllowed || isLoopbackHost(URL.parse(origin)?.hostname ?? "")) return {};
        throw new PeerRefused("speaks no TLS, which this host requires (STOKER_INGRESS_TLS)");
      }
      const own = identity.current();
      if (!own) throw new PeerRefused("asks for a certificate, and this host has none yet");
      if (hostId === "") throw new PeerRefused("is not named by the control plane, which is of an earlier version");
      context ??= peerContext(own);
      return dialOptions(context, hostId as HostId);
    },
  };
}
