// How this control plane connects to data paths of hosts: the one place that decides between TLS and plain HTTP, whose certificate
// must come, and what is shown there. What is shown is issued here and renewed by whoever dials first after two thirds of its life.
import type { SecureContext } from "node:tls";
import type { HostId } from "../../proto/ids.ts";
import { dialOptions, type PeerOptions, PeerRefused, peerContext } from "../../proto/peer-tls.ts";
import type { OwnCertificate } from "./authority.ts";

export interface DataPathAddress {
  readonly hostId: HostId;
  /** As the agent announces it: `https` is mutual TLS; `http` an agent on this machine alone, or of an earlier version. */
  readonly origin: string;
}

/** What to open a connection with. Asked anew for each one. Throws PeerRefused. */
export type Dial = (to: DataPathAddress) => PeerOptions;

export function createDial(deps: {
  readonly issue: () => OwnCertificate;
  readonly isRevoked: (host: HostId) => boolean;
  /** Plain HTTP only to this very machine. */
  readonly insistsOnTls: boolean;
  readonly nowMs: () => number;
}): Dial {
  let held: { readonly context: SecureContext; readonly renewAtMs: number } | undefined;

  function context(): SecureContext {
    const nowMs = deps.nowMs();
    if (!held || nowMs >= held.renewAtMs) {
      const own = deps.issue();
      const { certChainPem: certificatePem, keyPem, caPem } = own;
      const renewAtMs = nowMs + ((own.notAfterMs - nowMs) * 2) / 3;
      held = { context: peerContext({ certificatePem, keyPem, caPem }), renewAtMs };
    }
    return held.context;
  }

  return ({ hostId, origin }) => {
    if (deps.isRevoked(hostId)) throw new PeerRefused(`is revoked: host ${hostId}`);
    if (origin.startsWith("https:")) return dialOptions(context(), hostId);
    if (deps.insistsOnTls && !isThisMachine(origin))
      throw new PeerRefused(
        "speaks no TLS, which STOKER_DATA_PATH_TLS=required of this control plane asks for: update its agent, or remove " +
          "STOKER_INGRESS_TLS=off there",
      );
    return {};
  };
}

const isThisMachine = (origin: string): boolean =>
  /^(127(\.\d{1,3}){3}|\[::1\]|localhost)$/.test(URL.parse(origin)?.hostname ?? "");
