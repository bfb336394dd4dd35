// TLS of this host's data path, both ends of it: what it shows to whoever comes, and with what it goes to neighbours.
import type { SecureContext } from "node:tls";
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
      if (!origin.startsWith("https:")) return {};
      const own = identity.current();
      if (!own) throw new PeerRefused("asks for a certificate, and this host has none yet");
      if (hostId === "") throw new PeerRefused("is not named by the control plane, which is of an earlier version");
      context ??= peerContext(own);
      return dialOptions(context, hostId as HostId);
    },
  };
}
